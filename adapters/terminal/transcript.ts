import type { ApiMessage, SessionMirror, ApiToolCall } from "gantry/client";
import { diffRows } from "./diff-rows.js";
import { Prose } from "./markdown.js";
import { clean, truncate, trimEmptyLines, escapeInvisible, escapeLine } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

/** Maximum rows of a tool's output and of a diff, unless the user shows all. */
const OUTPUT_ROWS = 6;
const DIFF_ROWS = 24;
/** Maximum rows when the user shows all: a terminal cannot page through megabytes. */
const ALL_ROWS = 2_000;
/** Maximum characters of an output that are split into rows. */
const OUTPUT_CHARACTERS = 200_000;
/** Maximum characters of a call's summary, unless the user shows all. */
const SUMMARY_CHARACTERS = 2_000;
/** Arguments that summarize a call, in order of preference. */
const SUMMARY_ARGUMENTS = [
  "command",
  "filePath",
  "path",
  "file_path",
  "pattern",
  "url",
  "query",
  "question",
  "title",
  "description",
];

export interface Layout {
  readonly columns: number;
  /** Whether thoughts, outputs and diffs are shown in full. */
  readonly showsAll: boolean;
}

/** Rows of one message or notice. Notices have a `seq` between two messages. */
export interface RowBlock {
  readonly seq: number;
  readonly rows: readonly Line[];
}

/** Lines that the terminal shows between messages. */
export interface TranscriptNotice {
  /** `seq` of the message before the notice. */
  readonly afterSeq: number;
  readonly rows: readonly string[];
  readonly isBad: boolean;
}

/** A prompt that was sent and is not among the messages yet. */
export interface PendingPrompt {
  readonly text: string;
  /** `seq` of the last message before it; 0 if there is none. */
  readonly afterSeq: number;
}

interface CachedBlock {
  readonly columns: number;
  readonly all: boolean;
  readonly from: readonly unknown[];
  readonly block: RowBlock;
}

/** Renders a session's messages. Caches the rows of unchanged messages. */
export class Transcript {
  #cachedBlocks = new WeakMap<object, CachedBlock>();
  /** The message that is currently streamed. Each update is another object, with more text. */
  #growing: { seq: number; prose: Prose } | undefined;

  /** The messages and notices of a page in order. A prompt that is not among the messages yet comes last. */
  blocks(
    { messages, progress }: SessionMirror,
    notices: readonly TranscriptNotice[],
    layout: Layout,
    pending?: PendingPrompt,
  ): RowBlock[] {
    const results = new Map<string, ApiMessage>();
    const called = new Set<string>();
    for (const message of messages) {
      if (message.role === "tool") results.set(message.tool_call_id, message);
      for (const { id } of message.tool_calls) called.add(id);
    }
    const blocks: RowBlock[] = [];
    let next = 0;
    const addNotices = (upTo: number) => {
      for (let notice = notices[next]; notice && notice.afterSeq < upTo; notice = notices[(next += 1)])
        blocks.push(this.#block(notice, notice.afterSeq + 0.5, [], layout, () => noticeRows(notice, layout)));
    };
    for (const message of messages) {
      addNotices(message.seq);
      // The result is shown with its call.
      if (message.role === "tool" && called.has(message.tool_call_id)) continue;
      const from = message.tool_calls.flatMap(({ id }) => [results.get(id), progress.get(id)]);
      blocks.push(
        this.#block(message, message.seq, from, layout, () =>
          messageRows(message, results, progress, layout, this.#prose(message)),
        ),
      );
    }
    addNotices(Infinity);
    if (pending) blocks.push(this.#block(pending, Infinity, [], layout, () => promptRows(pending.text, layout)));
    return blocks;
  }

  #prose({ seq, finished }: ApiMessage): Prose {
    const prose = this.#growing?.seq === seq ? this.#growing.prose : new Prose([span("  ")]);
    if (finished === false) this.#growing = { seq, prose };
    else if (this.#growing?.seq === seq) this.#growing = undefined;
    return prose;
  }

  #block(
    of: object,
    seq: number,
    from: readonly unknown[],
    { columns, showsAll }: Layout,
    rows: () => Line[],
  ): RowBlock {
    const cachedBlock = this.#cachedBlocks.get(of);
    if (
      cachedBlock?.columns === columns &&
      cachedBlock.all === showsAll &&
      from.every((source, i) => source === cachedBlock.from[i])
    )
      return cachedBlock.block;
    const block = { seq, rows: rows() };
    this.#cachedBlocks.set(of, { columns, all: showsAll, from, block });
    return block;
  }
}

function noticeRows({ rows, isBad }: TranscriptNotice, { columns }: Layout): Line[] {
  const look = isBad ? "bad" : "dim";
  return [
    [],
    ...rows.flatMap((row) => wrap([span(escapeInvisible(row).replaceAll("\n", " "), look)], columns, [span("  ")])),
  ];
}

function promptRows(text: string, { columns }: Layout): Line[] {
  const rows = escapeInvisible(text)
    .split("\n")
    .flatMap((line, i) => wrap([span(line, "person")], columns, [span(i === 0 ? "❯ " : "  ", "person")], [span("  ")]));
  return [[], ...rows];
}

function messageRows(
  message: ApiMessage,
  results: ReadonlyMap<string, ApiMessage>,
  progress: ReadonlyMap<string, string>,
  layout: Layout,
  prose: Prose,
): Line[] {
  const { columns } = layout;
  const text = textOfMessage(message);
  if (message.role === "user") return promptRows(text, layout);
  if (message.role === "system") return [[], ...wrap([span(escapeLine(text), "dim")], columns, [span("  ")])];
  if (message.role === "tool") return [[], ...callRows(message.name, "", message, undefined, layout)];
  const rows: Line[] = [...thoughtRows(message, layout)];
  if (text.trim() !== "") {
    rows.push([]);
    for (const row of prose.rows(text, columns - 2)) rows.push(row);
  }
  for (const call of message.tool_calls) {
    const { id, function: calledFunction } = call;
    rows.push([], ...callRows(calledFunction.name, summaryOf(call), results.get(id), progress.get(id), layout));
  }
  return rows;
}

function thoughtRows({ reasoning, content, finished }: ApiMessage, { columns, showsAll }: Layout): Line[] {
  if (reasoning === null || reasoning.trim() === "") return [];
  const isThinking = finished === false && content === "";
  // A growing thought shows its end. The slice limits the work for a long text.
  const seen = isThinking && !showsAll ? reasoning.slice(-OUTPUT_ROWS * columns * 2) : reasoning;
  const lines = clean(seen.trim()).split("\n");
  if (!showsAll && !isThinking) return [[], [span(`  ✻ thought (${lines.length} lines, Ctrl+O shows them)`, "dim")]];
  const rows = lines.flatMap((line) => wrap([span(line, "dim")], columns, [span("  ✻ ", "dim")], [span("    ")]));
  const shown = showsAll ? rows : rows.slice(-OUTPUT_ROWS);
  return [[], ...shown.map((row, i): Line => (i === 0 ? row : [span("    "), ...row.slice(1)]))];
}

function callRows(
  name: string,
  summary: string,
  result: ApiMessage | undefined,
  printed: string | undefined,
  layout: Layout,
): Line[] {
  const { columns, showsAll } = layout;
  const mark = result === undefined ? span("  ○ ", "warn") : result.failed ? span("  ✗ ", "bad") : span("  ● ", "good");
  const most = showsAll ? ALL_ROWS : OUTPUT_ROWS;
  const head: Line = [
    span(escapeLine(name), "bold"),
    span(summary === "" ? "" : ` ${showsAll ? summary : summary.slice(0, SUMMARY_CHARACTERS)}`),
  ];
  const headRows = wrap(head, columns, [mark], [span("    ")]);
  const rows = showsAll || headRows.length <= 3 ? headRows : [...headRows.slice(0, 2), [span("    …", "dim")]];
  if (result?.diff && result.diff.length > 0) {
    for (const diff of result.diff)
      rows.push(
        ...diffRows(diff, columns - 4, showsAll ? ALL_ROWS : DIFF_ROWS).map((row): Line => [span("    "), ...row]),
      );
    return rows;
  }
  // A running call shows its latest output.
  const output = result ? textOfMessage(result) : (printed ?? "");
  if (output.trim() === "") return rows;
  const look = result?.failed ? "bad" : "dim";
  const lines = trimEmptyLines(
    clean(result ? output.slice(0, OUTPUT_CHARACTERS) : output.slice(-OUTPUT_CHARACTERS)),
  ).split("\n");
  const shown = result ? lines.slice(0, most) : lines.slice(-most);
  for (const line of shown) {
    const row = showsAll
      ? wrap([span(line, look)], columns, [span("    ")])
      : [[span("    "), span(truncate(line, columns - 4), look)]];
    rows.push(...row);
  }
  const hiddenLines = lines.length - shown.length;
  if (hiddenLines > 0)
    rows.push([span(`    … ${hiddenLines} more lines${showsAll ? "" : ", Ctrl+O shows them"}`, "dim")]);
  return rows;
}

/** Summary of a call's arguments, in one line. */
function summaryOf({ function: { arguments: argumentsJson } }: ApiToolCall): string {
  let read: unknown;
  try {
    read = JSON.parse(argumentsJson);
  } catch {
    return escapeLine(argumentsJson);
  }
  if (typeof read !== "object" || read === null) return escapeLine(argumentsJson);
  const fields = new Map<string, unknown>(Object.entries(read));
  for (const key of SUMMARY_ARGUMENTS) {
    const value = fields.get(key);
    if (typeof value === "string" && value !== "") return escapeLine(value);
  }
  return fields.size === 0 ? "" : escapeLine(argumentsJson);
}

/** The text of a message. Other parts are shown by kind and name. */
function textOfMessage({ content }: ApiMessage): string {
  if (typeof content === "string") return content;
  return content
    .map((part) =>
      part.type === "text"
        ? part.text
        : part.type === "image"
          ? `[image ${part.media_type}]`
          : `[file ${part.filename}]`,
    )
    .join("\n");
}
