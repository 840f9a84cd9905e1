import type { TerminalStore } from "./store.js";
import type { CursorPosition } from "./painter.js";
import { truncate, graphemes, formatCount, textWidth, graphemeWidth, escapeInvisible, escapeLine } from "./text.js";
import { span, textOf, wrap, type Line } from "./spans.js";
import type { Transcript } from "./transcript.js";

/** Maximum visible rows of the prompt, the suggestions, the plan and the unread instructions. */
const PROMPT_ROWS = 10;
const PROPOSALS = 6;
const PLAN_ROWS = 6;
const STEER_ROWS = 3;
/** Below this number of rows, a panel leaves only one row for messages. */
const MIN_SHARED_ROWS = 16;
const SPIN = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** The whole screen, row by row. A row may be wider than the screen. */
export interface Frame {
  readonly rows: readonly Line[];
  /** Undefined while an overlay or a question has the keys. */
  readonly cursor: CursorPosition | undefined;
}

/** Renders the store for a screen size. `tick` counts the animation steps. */
export function renderFrame(
  store: TerminalStore,
  transcript: Transcript,
  columns: number,
  rows: number,
  tick: number,
): Frame {
  const { conversation, overlay, ask } = store;
  const status = statusRow(store, columns, tick);
  const prompt = promptRows(store, columns, Math.max(1, Math.min(PROMPT_ROWS, rows - 4)));
  const room = Math.max(0, rows - 2 - prompt.rows.length);
  // A panel leaves four rows for messages, on a small screen one.
  const over = Math.max(1, room < MIN_SHARED_ROWS ? room - 1 : room - 4);
  const panel = overlay
    ? overlay.rows(columns, over)
    : ask
      ? ask.rows(columns, over, conversation.asks.length - 1)
      : [
          ...planRows(store, columns),
          ...steerRows(store, columns),
          ...processRows(store, columns),
          ...proposalRows(store, columns),
        ];
  const shown = panel.slice(0, room);
  const height = room - shown.length;
  const blocks = transcript.blocks(
    conversation.mirror,
    store.notices,
    { columns, showsAll: store.showsAll },
    conversation.pendingPrompt,
  );
  const head = headRows(store, columns);
  const messageRows = height > 0 ? store.scroll.visibleRows([{ seq: 0, rows: head }, ...blocks], height) : [];
  const empty: Line[] = Array.from({ length: height - messageRows.length }, () => []);
  const rule: Line = [span("─".repeat(columns), "dim")];
  const above = [...messageRows, ...empty, ...(overlay || ask ? [...shown, rule] : [rule])];
  const isWriting = !overlay && !ask?.hasKeys;
  const y = above.length + prompt.cursor.y;
  return {
    rows: [...above, ...prompt.rows, ...(overlay || ask ? [] : shown), status].slice(0, rows),
    cursor: isWriting && y < rows ? { x: Math.min(prompt.cursor.x, columns - 1), y } : undefined,
  };
}

/** Rows before the first message. */
function headRows({ conversation, options }: TerminalStore, columns: number): Line[] {
  if (conversation.isLoading) return [[span("  loading ...", "dim")]];
  if (conversation.hasOlder) return [[span("  older messages: scroll up", "dim")]];
  const rows = wrap([span("gantry ", "heading"), span(escapeLine(options.place), "dim")], columns, [span("  ")]);
  if (conversation.id === undefined && !conversation.pendingPrompt)
    rows.push(
      [],
      ...wrap([span("Type a prompt. /help lists keys and commands, /sessions earlier sessions.", "dim")], columns, [
        span("  "),
      ]),
    );
  return rows;
}

function planRows({ conversation }: TerminalStore, columns: number): Line[] {
  const plan = conversation.mirror.state?.plan ?? [];
  if (!conversation.isRunning || plan.every(({ status }) => status === "completed")) return [];
  const at = Math.max(0, plan.findIndex(({ status }) => status !== "completed") - 1);
  const marks = { completed: "✓", in_progress: "▸", pending: "·" };
  return plan
    .slice(at, at + PLAN_ROWS)
    .map(({ content, status }): Line => [
      span(`  ${marks[status]} `, status === "in_progress" ? "accent" : "dim"),
      span(truncate(escapeLine(content), columns - 4), status === "in_progress" ? "plain" : "dim"),
    ]);
}

/** Instructions that the run has not read yet. */
function steerRows({ conversation }: TerminalStore, columns: number): Line[] {
  return conversation.pendingSteers
    .slice(-STEER_ROWS)
    .map((text): Line => [
      span("  ↳ not read yet: ", "accent"),
      span(truncate(escapeLine(text), Math.max(1, columns - 18)), "dim"),
    ]);
}

/** Background processes in one row: their number and the command of the last one. */
function processRows({ conversation }: TerminalStore, columns: number): Line[] {
  const running = (conversation.mirror.state?.processes ?? []).filter(({ state }) => state === "running");
  const last = running.at(-1);
  if (!last) return [];
  // The count precedes the command, because a long command is cut at its end.
  const count = running.length === 1 ? "" : `${running.length} `;
  const label = `  ⟳ ${count}in the background: `;
  return [
    [span(label, "accent"), span(truncate(escapeLine(last.command), Math.max(1, columns - label.length)), "dim")],
  ];
}

function proposalRows({ prompt: { completion } }: TerminalStore, columns: number): Line[] {
  if (!completion) return [];
  const { suggestions, at } = completion;
  const top = Math.max(0, Math.min(at - PROPOSALS + 1, suggestions.length - PROPOSALS));
  return suggestions
    .slice(top, top + PROPOSALS)
    .map(({ text, about }, i): Line => [
      span(top + i === at ? "❯ " : "  ", "accent"),
      span(truncate(escapeLine(text.trimEnd()), columns - 3), top + i === at ? "selected" : "plain"),
      span(about === "" ? "" : `  ${about}`, "dim"),
    ]);
}

/** A row of the prompt: where it starts in the text, and its displayed characters. */
interface PromptRow {
  readonly from: number;
  readonly shown: string;
}

/** The last text broken into rows: most frames show the same text. */
let cachedRows: { text: string; room: number; rows: readonly PromptRow[] } | undefined;

function breakPrompt(text: string, room: number): readonly PromptRow[] {
  if (cachedRows?.text === text && cachedRows.room === room) return cachedRows.rows;
  const rows: PromptRow[] = [];
  let from = 0;
  let shown = "";
  let used = 0;
  let index = 0;
  const end = (next: number) => {
    rows.push({ from, shown });
    [from, shown, used] = [next, "", 0];
  };
  for (const grapheme of graphemes(text)) {
    if (grapheme === "\n") end(index + 1);
    else {
      const seen = escapeInvisible(grapheme);
      const width = seen.length === 1 ? graphemeWidth(seen) : textWidth(seen);
      if (used + width > room && used > 0) end(index);
      shown += seen;
      used += width;
    }
    index += grapheme.length;
  }
  end(index);
  cachedRows = { text, room, rows };
  return rows;
}

/** The prompt's rows, broken at the screen width, and the cursor in them. */
function promptRows(
  { editor }: TerminalStore,
  columns: number,
  most: number,
): { rows: Line[]; cursor: CursorPosition } {
  const all = breakPrompt(editor.text, Math.max(1, columns - 3));
  let y = all.length - 1;
  while (y > 0 && (all[y]?.from ?? 0) > editor.at) y -= 1;
  const x = 2 + textWidth(escapeInvisible(editor.text.slice(all[y]?.from ?? 0, editor.at)));
  const top = Math.max(0, Math.min(y - most + 1, all.length - most));
  const first = span(editor.text.startsWith("/") ? "/ " : "❯ ", "accent");
  return {
    rows: all.slice(top, top + most).map(({ shown }, i): Line => [top + i === 0 ? first : span("  "), span(shown)]),
    cursor: { x, y: y - top },
  };
}

function statusRow(store: TerminalStore, columns: number, tick: number): Line {
  const { conversation } = store;
  const { state } = conversation.mirror;
  const run = state?.run;
  const statusSpans: Line = store.isLeaving
    ? [span(conversation.isRunning ? "stopping; Ctrl+C again quits" : "Ctrl+C again quits", "warn")]
    : conversation.connection === "lost" && conversation.id !== undefined
      ? [span("connection lost, reconnecting", "bad")]
      : run?.retry
        ? [span(`retrying (${run.retry.attempt}): ${escapeLine(run.retry.reason)}`, "warn")]
        : run?.state === "waiting" && conversation.isRunning
          ? [span("waiting for your answer", "warn")]
          : conversation.isRunning
            ? [
                span(
                  `${SPIN[tick % SPIN.length] ?? ""} ${run?.state === "queued" ? "queued" : "working"}, Ctrl+C stops`,
                  "accent",
                ),
              ]
            : store.scroll.isAtEnd
              ? [span("/help", "dim")]
              : [span("Ctrl+End: to the end", "dim")];
  const usage = state?.session.usage;
  const right = [
    conversation.mode,
    conversation.model,
    usage && usage.total_tokens > 0 ? `${formatCount(usage.total_tokens)} tokens` : "",
    usage && usage.cost > 0 ? `$${usage.cost.toFixed(usage.cost < 1 ? 3 : 2)}` : "",
    state?.session.title ?? "",
  ]
    .filter((part) => part !== "")
    .map(escapeLine)
    .join(" · ");
  const details = truncate(right, Math.max(0, columns - textWidth(textOf(statusSpans)) - 4));
  const gap = columns - textWidth(textOf(statusSpans)) - textWidth(details) - 2;
  return [span(" "), ...statusSpans, span(" ".repeat(Math.max(1, gap))), span(details, "dim")];
}
