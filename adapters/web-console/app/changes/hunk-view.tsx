import { findChangedWords, type TextRange } from "../changed-words.js";
import { pairRows, type DiffRow } from "../diff-rows.js";
import { isolateRightToLeft } from "../content/right-to-left.js";
import { markRanges, type LinePart } from "./coloured-lines.js";
import type { Hunk } from "./hunks.js";

/** Coloured lines of the old and the new text; undefined without colours. */
export interface LineColours {
  oldLines: LinePart[][] | undefined;
  newLines: LinePart[][] | undefined;
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;
/** Maximum characters of a line that are shown. */
const MAX_LINE_CHARACTERS = 2_000;

/** The lines of a hunk, with syntax colours and marks of the changed words. */
export function HunkView({ hunk, colours, label }: { hunk: Hunk; colours: LineColours; label: string }) {
  const marks = findMarks(hunk.rows);
  return (
    // Long lines scroll, also by keyboard.
    <div class="diff-lines" role="group" aria-label={label} tabIndex={0}>
      <div class="diff-body">
        {hunk.rows.map((row) => (
          <div class={`diff-row ${row.kind}`}>
            <span class="diff-number">{row.oldLineNumber || ""}</span>
            <span class="diff-number">{row.newLineNumber || ""}</span>
            <span class="diff-sign">{SIGNS[row.kind]}</span>
            <span class="diff-text">
              {markRanges(getParts(row, colours), marks.get(row) ?? []).map(({ text, className, isMarked }) =>
                isMarked ? (
                  <mark class={className}>{isolateRightToLeft(text)}</mark>
                ) : (
                  <span class={className}>{isolateRightToLeft(text)}</span>
                ),
              )}
              {row.text.length > MAX_LINE_CHARACTERS && <span class="diff-note"> … shortened</span>}
              {row.lacksLineBreak && row.kind !== "same" && <span class="diff-note"> no line break at the end</span>}
            </span>
          </div>
        ))}
      </div>
    </div>
  );
}

function getParts({ kind, text, oldLineNumber, newLineNumber }: DiffRow, colours: LineColours): readonly LinePart[] {
  const parts = kind === "removed" ? colours.oldLines?.[oldLineNumber - 1] : colours.newLines?.[newLineNumber - 1];
  if (parts && text.length <= MAX_LINE_CHARACTERS) return parts;
  return [{ text: text.slice(0, MAX_LINE_CHARACTERS), className: "", isMarked: false }];
}

function findMarks(rows: readonly DiffRow[]): ReadonlyMap<DiffRow, readonly TextRange[]> {
  const marks = new Map<DiffRow, readonly TextRange[]>();
  for (const [left, right] of pairRows(rows)) {
    if (!left || !right || left === right) continue;
    if (left.text.length > MAX_LINE_CHARACTERS || right.text.length > MAX_LINE_CHARACTERS) continue;
    const changes = findChangedWords(left.text, right.text);
    if (changes) marks.set(left, changes.oldRanges).set(right, changes.newRanges);
  }
  return marks;
}
