import type { ApiMessage, SessionMirror, ApiToolCall } from "gantry/client";
import { renderDiff } from "./diff-rows.js";
import type { CodeHighlighter } from "./code-highlighter.js";
import type { MarkdownRenderer } from "./markdown.js";
import { MAX_EXPANDED_ROWS, MAX_OUTPUT_ROWS, renderOutputRows } from "./output-rows.js";
import { cleanText, escapeInvisible, escapeLine } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

/** Maximum rows of a diff, unless the user shows all. */
const MAX_DIFF_ROWS = 24;
/** Maximum rows of a call's name and summary, unless the user shows all. */
const MAX_CALL_ROWS = 3;
/** Maximum characters of a call's summary, unless the user shows all. */
const MAX_SUMMARY_CHARACTERS = 2_000;
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
  /** Width of the screen. */
  readonly columns: number;
  /** Whether thoughts, outputs and diffs are shown in full. */
  readonly showsAll: boolean;
}

/** Rows of one message or notice. Notices have a `seq` between two messages. */
export interface RowBlock {
  readonly seq: number;
  readonly rows: readonly Line[];
}

/** A notice of the terminal, shown between messages. */
export interface TranscriptNotice {
  /** `seq` of the message before the notice; 0 if there is none. */
  readonly afterSeq: number;
  readonly lines: readonly string[];
  readonly isError: boolean;
  /** Output of a shell command, shown below the lines. */
  readonly output?: { readonly text: string; readonly isFinished: boolean };
}

/** A prompt that was sent and is not among the messages yet. */
export interface PendingPrompt {
  readonly text: string;
  /** `seq` of the last message before the prompt; 0 if there is none. */
  readonly afterSeq: number;
}

interface CachedBlock {
  readonly columns: number;
  readonly showsAll: boolean;
  /** Results and outputs from which the rows were rendered, besides the message. */
  readonly inputs: readonly unknown[];
  readonly block: RowBlock;
}

/** Renders a session's messages. Caches the rows of unchanged messages. */
export class Transcript {
  #cachedBlocks = new WeakMap<object, CachedBlock>();
  /** The renderer of the message that is currently streamed. Each update of the message is another object. */
  #streamedMessage: { seq: number; renderer: MarkdownRenderer } | undefined;
  /** Undefined until the module is loaded: texts are then shown without formatting. */
  #markdown: typeof import("./markdown.js") | undefined;
  #loading: Promise<void> | undefined;
  /** Undefined if the terminal has no colours, and until the module is loaded. */
  #highlighter: CodeHighlighter | undefined;
  readonly #hasColours: boolean;
  readonly #onReset: () => void;

  /** `onReset`: called when the rows of all messages have changed. */
  constructor(hasColours = false, onReset: () => void = () => undefined) {
    this.#hasColours = hasColours;
    this.#onReset = onReset;
  }

  /** Starts to load the renderer of Markdown, which the first frame does not need. */
  loadMarkdown(): void {
    this.#loading ??= import("./markdown.js").then(
      (module) => {
        this.#markdown = module;
        if (this.#hasColours) this.#highlighter = new module.CodeHighlighter(() => this.#reset());
        this.#reset();
      },
      () => undefined,
    );
  }

  /** Renders all messages again. */
  #reset(): void {
    this.#cachedBlocks = new WeakMap();
    this.#streamedMessage = undefined;
    this.#onReset();
  }

  /** Renders messages and notices in order. A prompt that is not among the messages yet comes last. */
  renderBlocks(
    { messages, progress }: SessionMirror,
    notices: readonly TranscriptNotice[],
    layout: Layout,
    prompt?: PendingPrompt,
  ): RowBlock[] {
    const resultsByCallId = new Map<string, ApiMessage>();
    const calledIds = new Set<string>();
    for (const message of messages) {
      if (message.role === "tool") resultsByCallId.set(message.tool_call_id, message);
      for (const { id } of message.tool_calls) calledIds.add(id);
    }
    const blocks: RowBlock[] = [];
    let noticeIndex = 0;
    const addNotices = (nextSeq: number) => {
      for (let notice = notices[noticeIndex]; notice && notice.afterSeq < nextSeq; notice = notices[(noticeIndex += 1)])
        blocks.push(this.#getBlock(notice, notice.afterSeq + 0.5, [], layout, () => renderNoticeRows(notice, layout)));
    };
    for (const message of messages) {
      addNotices(message.seq);
      // The result is shown with its call.
      if (message.role === "tool" && calledIds.has(message.tool_call_id)) continue;
      const inputs = message.tool_calls.flatMap(({ id }) => [resultsByCallId.get(id), progress.get(id)]);
      blocks.push(
        this.#getBlock(message, message.seq, inputs, layout, () =>
          renderMessageRows(message, resultsByCallId, progress, layout, this.#getRenderer(message)),
        ),
      );
    }
    addNotices(Infinity);
    if (prompt) blocks.push(this.#getBlock(prompt, Infinity, [], layout, () => renderPromptRows(prompt.text, layout)));
    return blocks;
  }

  #getRenderer({ seq, finished }: ApiMessage): MarkdownRenderer | undefined {
    if (!this.#markdown) return undefined;
    const renderer =
      this.#streamedMessage?.seq === seq
        ? this.#streamedMessage.renderer
        : new this.#markdown.MarkdownRenderer([span("  ")], this.#highlighter);
    if (finished === false) this.#streamedMessage = { seq, renderer };
    else if (this.#streamedMessage?.seq === seq) this.#streamedMessage = undefined;
    return renderer;
  }

  /** The cached block of a message or notice, or a new block if the layout or an input has changed. */
  #getBlock(
    cacheKey: object,
    seq: number,
    inputs: readonly unknown[],
    { columns, showsAll }: Layout,
    renderRows: () => Line[],
  ): RowBlock {
    const cachedBlock = this.#cachedBlocks.get(cacheKey);
    if (
      cachedBlock?.columns === columns &&
      cachedBlock.showsAll === showsAll &&
      inputs.every((input, i) => input === cachedBlock.inputs[i])
    )
      return cachedBlock.block;
    const block = { seq, rows: renderRows() };
    this.#cachedBlocks.set(cacheKey, { columns, showsAll, inputs, block });
    return block;
  }
}

function renderNoticeRows({ lines: rows, isError, output }: TranscriptNotice, layout: Layout): Line[] {
  const { columns } = layout;
  const style = isError ? "bad" : "dim";
  return [
    [],
    ...rows.flatMap((row) => wrap([span(escapeInvisible(row).replaceAll("\n", " "), style)], columns, [span("  ")])),
    ...(output ? renderOutputRows(output.text, { isFinished: output.isFinished, style: "dim" }, layout) : []),
  ];
}

function renderPromptRows(text: string, { columns }: Layout): Line[] {
  const rows = escapeInvisible(text)
    .split("\n")
    .flatMap((line, i) => wrap([span(line, "person")], columns, [span(i === 0 ? "❯ " : "  ", "person")], [span("  ")]));
  return [[], ...rows];
}

function renderPlainRows(text: string, columns: number): Line[] {
  return cleanText(text)
    .split("\n")
    .flatMap((line) => wrap([span(line)], columns, [span("  ")]));
}

function renderMessageRows(
  message: ApiMessage,
  resultsByCallId: ReadonlyMap<string, ApiMessage>,
  progress: ReadonlyMap<string, string>,
  layout: Layout,
  renderer: MarkdownRenderer | undefined,
): Line[] {
  const { columns } = layout;
  const text = getMessageText(message);
  if (message.role === "user") {
    const output = getCommandOutput(message);
    return [...renderPromptRows(text, layout), ...renderOutputRows(output, { isFinished: true, style: "dim" }, layout)];
  }
  if (message.role === "system") return [[], ...wrap([span(escapeLine(text), "dim")], columns, [span("  ")])];
  if (message.role === "tool") return [[], ...renderCallRows(message.name, "", message, undefined, layout)];
  const rows: Line[] = [...renderThoughtRows(message, layout)];
  if (text.trim() !== "") {
    rows.push([]);
    for (const row of renderer?.renderRows(text, columns - 2) ?? renderPlainRows(text, columns)) rows.push(row);
  }
  for (const call of message.tool_calls) {
    const { id, function: calledFunction } = call;
    rows.push(
      [],
      ...renderCallRows(calledFunction.name, summarizeCall(call), resultsByCallId.get(id), progress.get(id), layout),
    );
  }
  return rows;
}

function renderThoughtRows({ reasoning, content, finished }: ApiMessage, { columns, showsAll }: Layout): Line[] {
  if (reasoning === null || reasoning.trim() === "") return [];
  const isThinking = finished === false && content === "";
  // An unfinished thought shows its last rows. The slice has enough characters for them and limits the work.
  const visibleText = isThinking && !showsAll ? reasoning.slice(-MAX_OUTPUT_ROWS * columns * 2) : reasoning;
  const lines = cleanText(visibleText.trim()).split("\n");
  if (!showsAll && !isThinking) return [[], [span(`  ✻ thought (${lines.length} lines, Ctrl+O shows them)`, "dim")]];
  const rows = lines.flatMap((line) => wrap([span(line, "dim")], columns, [span("  ✻ ", "dim")], [span("    ")]));
  const visibleRows = showsAll ? rows : rows.slice(-MAX_OUTPUT_ROWS);
  return [[], ...visibleRows.map((row, i): Line => (i === 0 ? row : [span("    "), ...row.slice(1)]))];
}

function renderCallRows(
  name: string,
  summary: string,
  result: ApiMessage | undefined,
  liveOutput: string | undefined,
  layout: Layout,
): Line[] {
  const { columns, showsAll } = layout;
  const mark = result === undefined ? span("  ○ ", "warn") : result.failed ? span("  ✗ ", "bad") : span("  ● ", "good");
  const header: Line = [
    span(escapeLine(name), "bold"),
    span(summary === "" ? "" : ` ${showsAll ? summary : summary.slice(0, MAX_SUMMARY_CHARACTERS)}`),
  ];
  const headRows = wrap(header, columns, [mark], [span("    ")]);
  const rows =
    showsAll || headRows.length <= MAX_CALL_ROWS
      ? headRows
      : [...headRows.slice(0, MAX_CALL_ROWS - 1), [span("    …", "dim")]];
  if (result?.diff && result.diff.length > 0) {
    for (const diff of result.diff)
      rows.push(
        ...renderDiff(diff, columns - 4, showsAll ? MAX_EXPANDED_ROWS : MAX_DIFF_ROWS).map((row): Line => [
          span("    "),
          ...row,
        ]),
      );
    return rows;
  }
  // A running call shows its latest output.
  const output = result ? getMessageText(result) : (liveOutput ?? "");
  const style = result?.failed ? "bad" : "dim";
  return [...rows, ...renderOutputRows(output, { isFinished: result !== undefined, style }, layout)];
}

/** Summarizes a call's arguments in one line. */
function summarizeCall({ function: { arguments: argumentsJson } }: ApiToolCall): string {
  let parsedArguments: unknown;
  try {
    parsedArguments = JSON.parse(argumentsJson);
  } catch {
    return escapeLine(argumentsJson);
  }
  if (typeof parsedArguments !== "object" || parsedArguments === null) return escapeLine(argumentsJson);
  const fields = new Map<string, unknown>(Object.entries(parsedArguments));
  for (const key of SUMMARY_ARGUMENTS) {
    const value = fields.get(key);
    if (typeof value === "string" && value !== "") return escapeLine(value);
  }
  return fields.size === 0 ? "" : escapeLine(argumentsJson);
}

/** Returns the output of a shell command of the user; "" for other messages. */
function getCommandOutput({ content, expanded_content: text = "" }: ApiMessage): string {
  if (typeof content !== "string" || !content.startsWith("!")) return "";
  const output = /<user-command-output>\n([^]*)\n<\/user-command-output>\s*$/.exec(text)?.[1] ?? "";
  return output.replaceAll("&lt;", "<");
}

/** Returns the text of a message. An image or file is replaced by its type or name. */
function getMessageText({ content }: ApiMessage): string {
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
