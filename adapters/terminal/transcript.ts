import type { ApiMessage, SessionMirror } from "gantry/client";
import type { CodeHighlighter } from "./code-highlighter.js";
import type { MarkdownRenderer } from "./markdown.js";
import { renderMessageRows, renderPromptRows } from "./message-rows.js";
import { renderOutputRows, type Layout } from "./output-rows.js";
import { escapeInvisible } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

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
