import type { TerminalStore } from "./store.js";
import type { FoldedPastes } from "./folded-pastes.js";
import type { CursorPosition } from "./painter.js";
import { truncate, toGraphemes, formatCount, textWidth, graphemeWidth, escapeInvisible, escapeLine } from "./text.js";
import { span, getLineText, wrap, type Line } from "./spans.js";
import type { Transcript } from "./transcript.js";

const MAX_PROMPT_ROWS = 10;
const MAX_SUGGESTION_ROWS = 6;
const MAX_PLAN_ROWS = 6;
const MAX_PENDING_ROWS = 3;
/** Number of free rows below which a panel leaves only one row for messages. */
const MIN_PANEL_SHARED_ROWS = 16;
/** Number of free rows below which a panel that has the keys covers the whole screen. */
const MIN_PANEL_ROWS = 4;
/** Number of rows that a panel leaves for messages on a large screen. */
const MESSAGE_ROWS_BESIDE_PANEL = 4;
const SPINNER_FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** All rows of the screen. A row may be wider than the screen. */
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
  const status = renderStatusRow(store, columns, tick);
  const prompt = renderPromptRows(store, columns, Math.max(1, Math.min(MAX_PROMPT_ROWS, rows - 4)));
  // Without the prompt, the rule and the status row.
  const freeRows = Math.max(0, rows - 2 - prompt.rows.length);
  const questionCount = conversation.asks.length - 1;
  if (freeRows < MIN_PANEL_ROWS && (overlay || ask?.hasKeys)) {
    const panelRows = overlay?.renderRows(columns, rows) ?? ask?.renderRows(columns, rows, questionCount) ?? [];
    // The last row names the keys.
    const lastRow = panelRows.length > rows ? panelRows.slice(-1) : [];
    return { rows: [...panelRows.slice(0, rows - lastRow.length), ...lastRow], cursor: undefined };
  }
  const maxPanelRows = Math.max(1, freeRows - (freeRows < MIN_PANEL_SHARED_ROWS ? 1 : MESSAGE_ROWS_BESIDE_PANEL));
  const fullPanel = overlay
    ? overlay.renderRows(columns, maxPanelRows)
    : ask
      ? ask.renderRows(columns, maxPanelRows, questionCount)
      : [
          ...renderPlanRows(store, columns),
          ...renderPendingRows(store, columns),
          ...renderProcessRows(store, columns),
          ...renderSuggestionRows(store, columns),
        ];
  const visiblePanel = fullPanel.slice(0, freeRows);
  const messageHeight = freeRows - visiblePanel.length;
  const blocks = transcript.renderBlocks(
    conversation.mirror,
    store.notices,
    { columns, showsAll: store.showsAll },
    conversation.pendingPrompt,
  );
  const header = renderHeadRows(store, columns);
  const messageRows =
    messageHeight > 0 ? store.scroll.applyScroll([{ seq: 0, rows: header }, ...blocks], messageHeight) : [];
  const emptyRows: Line[] = Array.from({ length: messageHeight - messageRows.length }, () => []);
  const rule: Line = [span("─".repeat(columns), "dim")];
  const upperRows = [...messageRows, ...emptyRows, ...(overlay || ask ? [...visiblePanel, rule] : [rule])];
  const hasPromptCursor = !overlay && !ask?.hasKeys;
  const y = upperRows.length + prompt.cursor.y;
  return {
    rows: [...upperRows, ...prompt.rows, ...(overlay || ask ? [] : visiblePanel), status].slice(0, rows),
    cursor: hasPromptCursor && y < rows ? { x: Math.min(prompt.cursor.x, columns - 1), y } : undefined,
  };
}

/** Rows before the first message. */
function renderHeadRows({ conversation, options }: TerminalStore, columns: number): Line[] {
  if (conversation.isLoading) return [[span("  loading ...", "dim")]];
  if (conversation.hasOlder) return [[span("  older messages: scroll up", "dim")]];
  const rows = wrap([span("gantry ", "heading"), span(escapeLine(options.location), "dim")], columns, [span("  ")]);
  if (conversation.id === undefined && !conversation.pendingPrompt)
    rows.push(
      [],
      ...wrap([span("Type a prompt. /help lists keys and commands, /sessions earlier sessions.", "dim")], columns, [
        span("  "),
      ]),
    );
  return rows;
}

function renderPlanRows({ conversation }: TerminalStore, columns: number): Line[] {
  const plan = conversation.mirror.state?.plan ?? [];
  if (!conversation.isRunning || plan.every(({ status }) => status === "completed")) return [];
  const firstIndex = Math.max(0, plan.findIndex(({ status }) => status !== "completed") - 1);
  const marks = { completed: "✓", in_progress: "▸", pending: "·" };
  return plan
    .slice(firstIndex, firstIndex + MAX_PLAN_ROWS)
    .map(({ content, status }): Line => [
      span(`  ${marks[status]} `, status === "in_progress" ? "accent" : "dim"),
      span(truncate(escapeLine(content), columns - 4), status === "in_progress" ? "plain" : "dim"),
    ]);
}

function renderPendingRows({ conversation }: TerminalStore, columns: number): Line[] {
  return conversation.pendingTexts.slice(-MAX_PENDING_ROWS).map(({ kind, text }): Line => {
    const label = kind === "steer" ? "  ↳ not read yet: " : "  ↳ queued: ";
    return [span(label, "accent"), span(truncate(escapeLine(text), Math.max(1, columns - label.length)), "dim")];
  });
}

/** Background processes in one row: their number and the command of the last one. */
function renderProcessRows({ conversation }: TerminalStore, columns: number): Line[] {
  const runningProcesses = (conversation.mirror.state?.processes ?? []).filter(({ state }) => state === "running");
  const lastProcess = runningProcesses.at(-1);
  if (!lastProcess) return [];
  // The count precedes the command, because a long command is truncated.
  const count = runningProcesses.length === 1 ? "" : `${runningProcesses.length} `;
  const label = `  ⟳ ${count}in the background: `;
  return [
    [
      span(label, "accent"),
      span(truncate(escapeLine(lastProcess.command), Math.max(1, columns - label.length)), "dim"),
    ],
  ];
}

function renderSuggestionRows({ prompt: { completion } }: TerminalStore, columns: number): Line[] {
  if (!completion) return [];
  const { suggestions, selectedIndex } = completion;
  const top = Math.max(0, Math.min(selectedIndex - MAX_SUGGESTION_ROWS + 1, suggestions.length - MAX_SUGGESTION_ROWS));
  return suggestions
    .slice(top, top + MAX_SUGGESTION_ROWS)
    .map(({ text, description }, i): Line => [
      span(top + i === selectedIndex ? "❯ " : "  ", "accent"),
      span(truncate(escapeLine(text.trimEnd()), columns - 3), top + i === selectedIndex ? "selected" : "plain"),
      span(description === "" ? "" : `  ${description}`, "dim"),
    ]);
}

/** A row of the prompt: the index of its start in the text, and its displayed characters. */
interface PromptRow {
  readonly start: number;
  readonly text: string;
}

/** Caches the rows of the last text, because most frames show the same text. */
let cachedRows: { text: string; rowColumns: number; pastes: FoldedPastes; rows: readonly PromptRow[] } | undefined;

/** Breaks the text of the prompt into rows of at most `rowColumns` columns. */
function breakPromptIntoRows(text: string, rowColumns: number, pastes: FoldedPastes): readonly PromptRow[] {
  if (cachedRows?.text === text && cachedRows.rowColumns === rowColumns && cachedRows.pastes === pastes)
    return cachedRows.rows;
  const rows: PromptRow[] = [];
  let start = 0;
  let rowText = "";
  let usedColumns = 0;
  let index = 0;
  const endRow = (nextStart: number) => {
    rows.push({ start, text: rowText });
    [start, rowText, usedColumns] = [nextStart, "", 0];
  };
  for (const grapheme of toGraphemes(text)) {
    if (grapheme === "\n") endRow(index + 1);
    else {
      const visibleText = escapeInvisible(pastes.label(grapheme));
      const width = visibleText.length === 1 ? graphemeWidth(visibleText) : textWidth(visibleText);
      if (usedColumns + width > rowColumns && usedColumns > 0) endRow(index);
      rowText += visibleText;
      usedColumns += width;
    }
    index += grapheme.length;
  }
  endRow(index);
  cachedRows = { text, rowColumns, pastes, rows };
  return rows;
}

/** Renders the part of the prompt around the cursor in at most `maxRows` rows. `cursor` is relative to these rows. */
function renderPromptRows(
  { prompt: { editor, pastes } }: TerminalStore,
  columns: number,
  maxRows: number,
): { rows: Line[]; cursor: CursorPosition } {
  const allRows = breakPromptIntoRows(editor.text, Math.max(1, columns - 3), pastes);
  let y = allRows.length - 1;
  while (y > 0 && (allRows[y]?.start ?? 0) > editor.cursor) y -= 1;
  const x = 2 + textWidth(escapeInvisible(pastes.label(editor.text.slice(allRows[y]?.start ?? 0, editor.cursor))));
  const top = Math.max(0, Math.min(y - maxRows + 1, allRows.length - maxRows));
  const firstPrefix = span(editor.text.startsWith("/") ? "/ " : "❯ ", "accent");
  return {
    rows: allRows
      .slice(top, top + maxRows)
      .map(({ text }, i): Line => [top + i === 0 ? firstPrefix : span("  "), span(text)]),
    cursor: { x, y: y - top },
  };
}

/** Formats the time since the start of a run; "" in its first second, and if the clock of the server is ahead. */
function formatDuration(startedAt: string | undefined): string {
  const seconds = Math.floor((Date.now() - Date.parse(startedAt ?? "")) / 1_000);
  return seconds >= 1 ? ` · ${seconds} s` : "";
}

function renderStatusRow(store: TerminalStore, columns: number, tick: number): Line {
  const { conversation } = store;
  const { state } = conversation.mirror;
  const run = state?.run;
  const statusSpans: Line = store.interruptKey.isExitPending
    ? [span(conversation.isRunning ? "stopping; Ctrl+C again quits" : "Ctrl+C again quits", "warn")]
    : conversation.connection === "lost" && conversation.id !== undefined
      ? [span("connection lost, reconnecting", "bad")]
      : run?.retry
        ? [span(`retrying (${run.retry.attempt}): ${escapeLine(run.retry.reason)}`, "warn")]
        : store.shell
          ? [span("running a command, Ctrl+C stops", "accent")]
          : run?.state === "waiting" && conversation.isRunning
            ? [span("waiting for your answer", "warn")]
            : conversation.isRunning
              ? [
                  span(
                    `${SPINNER_FRAMES[tick % SPINNER_FRAMES.length] ?? ""} ${run?.state === "queued" ? "queued" : "working"}, Ctrl+C stops${formatDuration(run?.started_at)}`,
                    "accent",
                  ),
                ]
              : store.scroll.isAtEnd
                ? [span("/help", "dim")]
                : [span("Ctrl+End: to the end", "dim")];
  const usage = state?.session.usage;
  const fullDetails = [
    conversation.mode,
    conversation.model,
    usage && usage.total_tokens > 0 ? `${formatCount(usage.total_tokens)} tokens` : "",
    store.contextGauge.percent === undefined ? "" : `${store.contextGauge.percent}% of window`,
    usage && usage.cost > 0 ? `$${usage.cost.toFixed(usage.cost < 1 ? 3 : 2)}` : "",
    usage && usage.total_tokens > 0 && usage.cost === 0 ? "no price known" : "",
    state?.session.title ?? "",
  ]
    .filter((part) => part !== "")
    .map(escapeLine)
    .join(" · ");
  const details = truncate(fullDetails, Math.max(0, columns - textWidth(getLineText(statusSpans)) - 4));
  const gapColumns = columns - textWidth(getLineText(statusSpans)) - textWidth(details) - 2;
  return [span(" "), ...statusSpans, span(" ".repeat(Math.max(1, gapColumns))), span(details, "dim")];
}
