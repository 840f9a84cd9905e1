import { useSignal } from "@preact/signals";
import type { ApiChangedFile, ApiHunk } from "gantry/client";
import { useEffect } from "preact/hooks";
import { escapeInvisible } from "../content/escape.js";
import { compareTexts } from "../diff-lines.js";
import { EditorLink } from "../preview/editor-link.js";
import { colourLines } from "./coloured-lines.js";
import { HunkView, type LineColours } from "./hunk-view.js";
import { toHunks, type Hunk } from "./hunks.js";

const KIND_LABELS = { created: "new file", changed: "", deleted: "deleted" } as const;
const OMISSIONS = {
  "": "",
  binary: "This file is not text.",
  too_large: "This file is too large to show.",
  lost: "No copy of the old content is stored.",
} as const;
/** Maximum number of changed places that are shown at first, and added with each click. */
const HUNK_COUNT = 40;

interface FileChangesProps {
  file: ApiChangedFile;
  /** Path as shown. */
  path: string;
  /** Undefined if the server permits no undo. */
  undo: ((file: ApiChangedFile, hunk?: ApiHunk) => void) | undefined;
  isDisabled: boolean;
  copyPatch: () => void;
}

/** The changes of one file. */
export function FileChanges({ file, path, undo, isDisabled, copyPatch }: FileChangesProps) {
  const hunks = useSignal<readonly Hunk[] | undefined>(undefined);
  const colours = useSignal<LineColours>({ oldLines: undefined, newLines: undefined });
  const maxHunks = useSignal(HUNK_COUNT);
  const [oldText, newText] = [file.old_text ?? "", file.new_text ?? ""];
  const shownPath = escapeInvisible(path);
  useEffect(() => {
    const controller = new AbortController();
    const load = async () => {
      hunks.value = toHunks(await compareTexts(oldText, newText, controller.signal));
      const [oldLines, newLines] = [await colourLines(oldText, path), await colourLines(newText, path)];
      if (!controller.signal.aborted) colours.value = { oldLines, newLines };
    };
    // The component was removed, or the highlighter cannot be loaded: the lines have no colours.
    load().catch(() => undefined);
    return () => controller.abort();
  }, [oldText, newText, path]);
  const canUndoLines = undo && file.kind === "changed" && file.version !== "";
  return (
    <section class="diff" aria-label={`Changes of ${shownPath}`}>
      <header class="diff-head changes-head">
        <bdi class="diff-path clipped" dir="ltr" title={shownPath}>
          {shownPath}
        </bdi>
        <span class="diff-verb">{KIND_LABELS[file.kind]}</span>
        {file.added !== null && file.removed !== null && (
          <span class="diff-counts">
            <span class="diff-plus">+{file.added}</span>
            <span class="diff-minus">−{file.removed}</span>
          </span>
        )}
        {file.kind !== "deleted" && <EditorLink path={file.path} />}
        {file.omitted === "" && (
          <button type="button" class="button quiet" aria-label={`Copy as patch: ${shownPath}`} onClick={copyPatch}>
            Copy as patch
          </button>
        )}
        {undo && (
          <button
            type="button"
            class="button quiet"
            disabled={isDisabled}
            aria-label={`Undo file: ${shownPath}`}
            onClick={() => undo(file)}
          >
            Undo file
          </button>
        )}
      </header>
      {file.omitted !== "" && <p class="diff-wait">{OMISSIONS[file.omitted]}</p>}
      {file.omitted === "" && hunks.value === undefined && <p class="diff-wait">Comparing…</p>}
      {hunks.value?.slice(0, maxHunks.value).map((hunk) => {
        const label = describeLines(hunk.change);
        return (
          <div key={`${hunk.range.old_start} ${hunk.range.new_start}`}>
            <div class="changes-hunk">
              <span>{label}</span>
              {canUndoLines && (
                <button
                  type="button"
                  class="button quiet"
                  disabled={isDisabled}
                  aria-label={`Undo ${label.toLowerCase()} of ${shownPath}`}
                  onClick={() => undo(file, hunk.change)}
                >
                  Undo
                </button>
              )}
            </div>
            <HunkView hunk={hunk} colours={colours.value} label={`${label} of ${shownPath}`} />
          </div>
        );
      })}
      {hunks.value && hunks.value.length > maxHunks.value && (
        <button type="button" class="diff-more" onClick={() => (maxHunks.value += HUNK_COUNT)}>
          Show more of {hunks.value.length} changes
        </button>
      )}
    </section>
  );
}

function describeLines({ old_start, old_lines, new_start, new_lines }: ApiHunk): string {
  const [start, count] = new_lines > 0 ? [new_start, new_lines] : [old_start, old_lines];
  const place = count === 1 ? `Line ${start}` : `Lines ${start}–${start + count - 1}`;
  return new_lines > 0 ? place : `${place} (removed)`;
}
