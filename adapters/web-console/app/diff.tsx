import { useComputed, useSignal, signal } from "@preact/signals";
import type { ApiDiff } from "gantry/client";
import { useEffect, useMemo } from "preact/hooks";
import { findChangedWords, type TextRange } from "./changed-words.js";
import { compareInSteps, compareTexts } from "./diff-lines.js";
import { countChanges, groupRows, pairRows, type DiffBlock, type DiffRow } from "./diff-rows.js";
import { isolateRightToLeft } from "./content/right-to-left.js";
import { Icon } from "./parts/icon.js";

/**
 * Maximum characters of both texts together for a comparison during rendering. With a synchronous comparison, the page
 * does not move when the lines appear.
 */
const MAX_SYNC_CHARACTERS = 30_000;
/** Number of lines shown at first, and added with each click. */
const LINE_COUNTS = { first: 400, step: 2_000 };
/** Maximum characters of a line that are shown until the user expands it. */
const MAX_LINE_CHARACTERS = 2_000;
const STORAGE_KEY = "gantry.diff";

/** Whether diffs have one column or two. All diffs share the choice. */
const layout = signal<"unified" | "split">(readLayout());
const rowsByDiff = new WeakMap<ApiDiff, DiffRow[]>();

function readLayout(): "unified" | "split" {
  try {
    return localStorage.getItem(STORAGE_KEY) === "split" ? "split" : "unified";
  } catch {
    return "unified";
  }
}

function setLayout(value: "unified" | "split"): void {
  layout.value = value;
  try {
    localStorage.setItem(STORAGE_KEY, value);
  } catch {
    // Without storage, the choice holds until the page is closed.
  }
}

interface DiffViewProps {
  diff: ApiDiff;
  /** Whether the lines are shown before the user opens or closes the diff. Default true. */
  isInitiallyOpen?: boolean;
  /** Whether the change is only proposed, and the user is asked to permit it. */
  isProposed?: boolean;
  /** Whether the texts are parts of the file without a known position. */
  isExcerpt?: boolean;
}

/** The changes of one file, line by line. */
export function DiffView({ diff, isInitiallyOpen = true, isProposed = false, isExcerpt = false }: DiffViewProps) {
  const rows = useDiffRows(diff);
  const isOpen = useSignal(isInitiallyOpen);
  const counts = rows && countChanges(rows);
  // `old_text` is null for a new file. For a proposed change, null means that the file may exist and `new_text` is its
  // whole new content.
  const changeLabel =
    diff.old_text === null ? (isProposed ? "all of the file" : "new file") : diff.new_text === "" ? "emptied" : "";
  return (
    <section
      class={`diff ${isProposed ? "diff-proposed" : ""} ${isExcerpt && diff.old_text !== null ? "diff-excerpt" : ""}`}
      aria-label={`Changes of ${diff.path}`}
    >
      <header class="diff-head">
        <button
          type="button"
          class="diff-fold"
          aria-expanded={isOpen.value}
          onClick={() => (isOpen.value = !isOpen.value)}
        >
          <Icon name={isOpen.value ? "chevron-down" : "chevron-right"} />
          <bdi class="diff-path clipped" dir="ltr" title={diff.path}>
            {isolateRightToLeft(diff.path)}
          </bdi>
        </button>
        {changeLabel && <span class="diff-verb">{changeLabel}</span>}
        {counts && (
          <span class="diff-counts">
            <span class="diff-plus" aria-label={`${counts.added} lines added`}>
              +{counts.added}
            </span>
            <span class="diff-minus" aria-label={`${counts.removed} lines removed`}>
              −{counts.removed}
            </span>
          </span>
        )}
        {isOpen.value && diff.old_text !== null && (
          <button
            type="button"
            class="diff-layout"
            aria-pressed={layout.value === "split"}
            onClick={() => setLayout(layout.value === "split" ? "unified" : "split")}
          >
            Side by side
          </button>
        )}
      </header>
      {isOpen.value &&
        (rows ? (
          <DiffRows rows={rows} isNew={diff.old_text === null} path={diff.path} />
        ) : (
          <p class="diff-wait">
            <span class="spinner" /> Comparing…
          </p>
        ))}
    </section>
  );
}

/** The rows of a diff; undefined until the comparison is complete. */
function useDiffRows(diff: ApiDiff): DiffRow[] | undefined {
  const oldText = diff.old_text ?? "";
  const newText = diff.new_text;
  const syncRows = useMemo(() => {
    const cachedRows = rowsByDiff.get(diff);
    if (cachedRows || oldText.length + newText.length > MAX_SYNC_CHARACTERS) return cachedRows;
    const comparison = compareInSteps(oldText, newText);
    let step = comparison.next();
    while (!step.done) step = comparison.next();
    rowsByDiff.set(diff, step.value);
    return step.value;
  }, [oldText, newText]);
  const asyncResult = useSignal<{ diff: ApiDiff; rows: DiffRow[] } | undefined>(undefined);
  useEffect(() => {
    if (syncRows) return;
    const controller = new AbortController();
    compareTexts(oldText, newText, controller.signal).then(
      (rows) => {
        rowsByDiff.set(diff, rows);
        asyncResult.value = { diff, rows };
      },
      // The comparison rejects only after the component was removed.
      () => undefined,
    );
    return () => controller.abort();
  }, [oldText, newText, syncRows]);
  return syncRows ?? (asyncResult.value?.diff === diff ? asyncResult.value.rows : undefined);
}

function DiffRows({ rows, isNew, path }: { rows: DiffRow[]; isNew: boolean; path: string }) {
  const maxLines = useSignal(LINE_COUNTS.first);
  /** The folded blocks that the user opened, by their first rows. */
  const openedFolds = useSignal<ReadonlySet<DiffRow>>(new Set());
  const blocks = useMemo(() => groupRows(rows), [rows]);
  const isSplit = useComputed(() => layout.value === "split" && !isNew && !isNarrow());
  if (rows.length === 0) return <p class="diff-wait">The file is empty.</p>;
  let remainingLines = maxLines.value;
  let hiddenLines = 0;
  const blockViews = blocks.map((block) => {
    const [firstRow] = block.rows;
    if (!firstRow) return null;
    if (block.kind === "folded" && !openedFolds.value.has(firstRow))
      return remainingLines <= 0 ? null : (
        <Fold block={block} onOpen={() => (openedFolds.value = new Set([...openedFolds.value, firstRow]))} />
      );
    const visibleRows = block.rows.slice(0, Math.max(0, remainingLines));
    remainingLines -= visibleRows.length;
    hiddenLines += block.rows.length - visibleRows.length;
    if (visibleRows.length === 0) return null;
    return isSplit.value ? (
      <SplitRows key={firstRow} rows={visibleRows} />
    ) : (
      <UnifiedRows key={firstRow} rows={visibleRows} />
    );
  });
  return (
    <>
      <div
        class={`diff-lines ${isSplit.value ? "diff-split" : ""}`}
        role="group"
        aria-label={`Lines of ${path}`}
        tabIndex={0}
      >
        <div class="diff-body">{blockViews}</div>
      </div>
      {hiddenLines > 0 && (
        <button type="button" class="diff-more" onClick={() => (maxLines.value += LINE_COUNTS.step)}>
          Show {Math.min(hiddenLines, LINE_COUNTS.step).toLocaleString("en")} more of {hiddenLines.toLocaleString("en")}{" "}
          lines
        </button>
      )}
    </>
  );
}

function Fold({ block, onOpen }: { block: DiffBlock; onOpen: () => void }) {
  return (
    <button type="button" class="diff-folded" onClick={onOpen}>
      {block.rows.length.toLocaleString("en")} unchanged lines
    </button>
  );
}

type WordMarks = ReadonlyMap<DiffRow, readonly TextRange[]>;

/** Finds the changed words in each pair of a removed and a similar added line. */
function findWordMarks(rows: readonly DiffRow[]): WordMarks {
  const marks = new Map<DiffRow, readonly TextRange[]>();
  for (const [left, right] of pairRows(rows)) {
    if (
      !left ||
      !right ||
      left === right ||
      left.text.length > MAX_LINE_CHARACTERS ||
      right.text.length > MAX_LINE_CHARACTERS
    )
      continue;
    const wordChanges = findChangedWords(left.text, right.text);
    if (wordChanges) marks.set(left, wordChanges.oldRanges).set(right, wordChanges.newRanges);
  }
  return marks;
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;

function UnifiedRows({ rows }: { rows: readonly DiffRow[] }) {
  // `rows` is a new array at each rendering, but always a slice from the same first row.
  const marks = useMemo(() => findWordMarks(rows), [rows[0], rows.length]);
  return (
    <>
      {rows.map((row) => (
        <div class={`diff-row ${row.kind}`}>
          <span class="diff-number">{row.oldLineNumber || ""}</span>
          <span class="diff-number">{row.newLineNumber || ""}</span>
          <span class="diff-sign">{SIGNS[row.kind]}</span>
          <LineText row={row} marks={marks} />
        </div>
      ))}
    </>
  );
}

function SplitRows({ rows }: { rows: readonly DiffRow[] }) {
  // `rows` is a new array at each rendering, but always a slice from the same first row.
  const marks = useMemo(() => findWordMarks(rows), [rows[0], rows.length]);
  const renderHalf = (row: DiffRow | undefined, number: number) => (
    <>
      <span class={`diff-number ${row?.kind ?? "none"}`}>{number || ""}</span>
      <span class={`diff-half ${row?.kind ?? "none"}`}>
        <span class="diff-sign">{row ? SIGNS[row.kind] : " "}</span>
        {row && <LineText row={row} marks={marks} />}
      </span>
    </>
  );
  return (
    <>
      {pairRows(rows).map(([left, right]) => (
        <div class="diff-pair">
          {renderHalf(left, left?.oldLineNumber ?? 0)}
          {renderHalf(right, right?.newLineNumber ?? 0)}
        </div>
      ))}
    </>
  );
}

function LineText({ row, marks }: { row: DiffRow; marks: WordMarks }) {
  const isExpanded = useSignal(false);
  const hasCarriageReturn = row.text.endsWith("\r");
  const length = row.text.length - (hasCarriageReturn ? 1 : 0);
  const text = row.text.slice(0, isExpanded.value ? length : Math.min(MAX_LINE_CHARACTERS, length));
  const segments = [];
  let segmentStart = 0;
  for (const [start, end] of marks.get(row) ?? []) {
    if (start > segmentStart) segments.push(isolateRightToLeft(text.slice(segmentStart, start)));
    segments.push(<mark>{isolateRightToLeft(text.slice(start, end))}</mark>);
    segmentStart = end;
  }
  segments.push(isolateRightToLeft(text.slice(segmentStart)));
  return (
    <span class="diff-text">
      {segments}
      {hasCarriageReturn && <span class="diff-note">␍</span>}
      {text.length < length && (
        <button type="button" class="diff-expand" onClick={() => (isExpanded.value = true)}>
          … {(length - text.length).toLocaleString("en")} more characters
        </button>
      )}
      {row.lacksLineBreak && row.kind !== "same" && <span class="diff-note"> no line break at the end</span>}
    </span>
  );
}

/** Whether the screen is too narrow for two columns. */
function isNarrow(): boolean {
  return matchMedia("(max-width: 720px)").matches;
}
