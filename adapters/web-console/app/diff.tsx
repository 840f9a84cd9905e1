import { useComputed, useSignal, signal } from "@preact/signals";
import type { ApiDiff } from "gantry/client";
import { useEffect, useMemo } from "preact/hooks";
import "./diff.css";
import {
  blocksOf,
  compare,
  compareInSteps,
  countsOf,
  sideBySide,
  wordMarks,
  type DiffBlock,
  type DiffRow,
  type TextRange,
} from "./diff-lines.js";
import { isolateRightToLeft } from "./content/right-to-left.js";
import { Icon } from "./parts/icon.js";

/**
 * Maximum characters of both texts that are compared synchronously, during rendering: the page does not move when the
 * lines appear.
 */
const MAX_SYNC_CHARACTERS = 30_000;
/** Number of lines shown at first, and added with each click. */
const LINE_LIMITS = { first: 400, step: 2_000 };
/** Maximum characters of a line that are shown until the user expands it. */
const MAX_LINE_CHARACTERS = 2_000;
const STORAGE_KEY = "gantry.diff";

/** One column or two, stored for all diffs. */
const layout = signal<"unified" | "split">(read());
const compared = new WeakMap<ApiDiff, DiffRow[]>();

function read(): "unified" | "split" {
  try {
    return localStorage.getItem(STORAGE_KEY) === "split" ? "split" : "unified";
  } catch {
    return "unified";
  }
}

function choose(value: "unified" | "split"): void {
  layout.value = value;
  try {
    localStorage.setItem(STORAGE_KEY, value);
  } catch {
    // Without storage, the choice holds until the page is closed.
  }
}

interface DiffViewProps {
  diff: ApiDiff;
  open?: boolean;
  /** Whether the change is only proposed, and the user is asked to permit it. */
  isProposed?: boolean;
  /** Whether the texts are parts of the file without a known position. */
  pieces?: boolean;
}

/** The changes of one file, line by line. */
export function DiffView({ diff, open = true, isProposed = false, pieces = false }: DiffViewProps) {
  const rows = useRows(diff);
  const isOpen = useSignal(open);
  const counts = rows && countsOf(rows);
  const verb =
    diff.old_text === null ? (isProposed ? "all of the file" : "new file") : diff.new_text === "" ? "emptied" : "";
  return (
    <section
      class={`diff ${isProposed ? "diff-asked" : ""} ${pieces && diff.old_text !== null ? "diff-planned" : ""}`}
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
        {verb && <span class="diff-verb">{verb}</span>}
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
            onClick={() => choose(layout.value === "split" ? "unified" : "split")}
          >
            Side by side
          </button>
        )}
      </header>
      {isOpen.value &&
        (rows ? (
          <Rows rows={rows} isNew={diff.old_text === null} path={diff.path} />
        ) : (
          <p class="diff-wait">
            <span class="spinner" /> Comparing…
          </p>
        ))}
    </section>
  );
}

/** The rows of a diff. Undefined until the comparison is complete. */
function useRows(diff: ApiDiff): DiffRow[] | undefined {
  const before = diff.old_text ?? "";
  const after = diff.new_text;
  const atOnce = useMemo(() => {
    const cachedRows = compared.get(diff);
    if (cachedRows || before.length + after.length > MAX_SYNC_CHARACTERS) return cachedRows;
    const work = compareInSteps(before, after);
    let step = work.next();
    while (!step.done) step = work.next();
    compared.set(diff, step.value);
    return step.value;
  }, [before, after]);
  const later = useSignal<{ diff: ApiDiff; rows: DiffRow[] } | undefined>(undefined);
  useEffect(() => {
    if (atOnce) return;
    const gone = new AbortController();
    compare(before, after, gone.signal).then(
      (rows) => {
        compared.set(diff, rows);
        later.value = { diff, rows };
      },
      // The comparison rejects only if the component is gone.
      () => undefined,
    );
    return () => gone.abort();
  }, [before, after, atOnce]);
  return atOnce ?? (later.value?.diff === diff ? later.value.rows : undefined);
}

function Rows({ rows, isNew, path }: { rows: DiffRow[]; isNew: boolean; path: string }) {
  const shown = useSignal(LINE_LIMITS.first);
  /** First rows of the folded blocks that the user opened. */
  const opened = useSignal<ReadonlySet<DiffRow>>(new Set());
  const blocks = useMemo(() => blocksOf(rows), [rows]);
  const isSplit = useComputed(() => layout.value === "split" && !isNew && !isNarrow());
  if (rows.length === 0) return <p class="diff-wait">The file is empty.</p>;
  let remainingLines = shown.value;
  let hidden = 0;
  const parts = blocks.map((block) => {
    const [first] = block.rows;
    if (!first) return null;
    if (block.kind === "folded" && !opened.value.has(first))
      return remainingLines <= 0 ? null : (
        <Fold block={block} onOpen={() => (opened.value = new Set([...opened.value, first]))} />
      );
    const visible = block.rows.slice(0, Math.max(0, remainingLines));
    remainingLines -= visible.length;
    hidden += block.rows.length - visible.length;
    if (visible.length === 0) return null;
    return isSplit.value ? <Split key={first} rows={visible} /> : <Unified key={first} rows={visible} />;
  });
  return (
    <>
      <div
        class={`diff-lines ${isSplit.value ? "diff-split" : ""}`}
        role="group"
        aria-label={`Lines of ${path}`}
        tabIndex={0}
      >
        <div class="diff-body">{parts}</div>
      </div>
      {hidden > 0 && (
        <button type="button" class="diff-more" onClick={() => (shown.value += LINE_LIMITS.step)}>
          Show {Math.min(hidden, LINE_LIMITS.step).toLocaleString("en")} more of {hidden.toLocaleString("en")} lines
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

type Marks = ReadonlyMap<DiffRow, readonly TextRange[]>;

/** Changed words, for removed lines that have a similar added line. */
function marksOf(rows: readonly DiffRow[]): Marks {
  const marks = new Map<DiffRow, readonly TextRange[]>();
  for (const [left, right] of sideBySide(rows)) {
    if (
      !left ||
      !right ||
      left === right ||
      left.text.length > MAX_LINE_CHARACTERS ||
      right.text.length > MAX_LINE_CHARACTERS
    )
      continue;
    const wordChanges = wordMarks(left.text, right.text);
    if (wordChanges) marks.set(left, wordChanges.before).set(right, wordChanges.after);
  }
  return marks;
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;

function Unified({ rows }: { rows: readonly DiffRow[] }) {
  const marks = useMemo(() => marksOf(rows), [rows[0], rows.length]);
  return (
    <>
      {rows.map((row) => (
        <div class={`diff-row ${row.kind}`}>
          <span class="diff-number">{row.old || ""}</span>
          <span class="diff-number">{row.new || ""}</span>
          <span class="diff-sign">{SIGNS[row.kind]}</span>
          <Line row={row} marks={marks} />
        </div>
      ))}
    </>
  );
}

function Split({ rows }: { rows: readonly DiffRow[] }) {
  const marks = useMemo(() => marksOf(rows), [rows[0], rows.length]);
  const half = (row: DiffRow | undefined, number: number) => (
    <>
      <span class={`diff-number ${row?.kind ?? "none"}`}>{number || ""}</span>
      <span class={`diff-half ${row?.kind ?? "none"}`}>
        <span class="diff-sign">{row ? SIGNS[row.kind] : " "}</span>
        {row && <Line row={row} marks={marks} />}
      </span>
    </>
  );
  return (
    <>
      {sideBySide(rows).map(([left, right]) => (
        <div class="diff-pair">
          {half(left, left?.old ?? 0)}
          {half(right, right?.new ?? 0)}
        </div>
      ))}
    </>
  );
}

function Line({ row, marks }: { row: DiffRow; marks: Marks }) {
  const isWhole = useSignal(false);
  const isReturn = row.text.endsWith("\r");
  const length = row.text.length - (isReturn ? 1 : 0);
  const text = row.text.slice(0, isWhole.value ? length : Math.min(MAX_LINE_CHARACTERS, length));
  const parts = [];
  let at = 0;
  for (const [start, end] of marks.get(row) ?? []) {
    if (start > at) parts.push(isolateRightToLeft(text.slice(at, start)));
    parts.push(<mark>{isolateRightToLeft(text.slice(start, end))}</mark>);
    at = end;
  }
  parts.push(isolateRightToLeft(text.slice(at)));
  return (
    <span class="diff-text">
      {parts}
      {isReturn && <span class="diff-note">␍</span>}
      {text.length < length && (
        <button type="button" class="diff-rest" onClick={() => (isWhole.value = true)}>
          … {(length - text.length).toLocaleString("en")} more characters
        </button>
      )}
      {row.open && row.kind !== "same" && <span class="diff-note"> no line break at the end</span>}
    </span>
  );
}

/** A narrow screen has no room for two columns. */
function isNarrow(): boolean {
  return matchMedia("(max-width: 720px)").matches;
}
