import type { ApiMessage, ApiToolCall } from "gantry/client";
import { renderDiff } from "./diff-rows.js";
import type { MarkdownRenderer } from "./markdown.js";
import { MAX_EXPANDED_ROWS, MAX_OUTPUT_ROWS, renderOutputRows, type Layout } from "./output-rows.js";
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

/** Renders a prompt of the user. */
export function renderPromptRows(text: string, { columns }: Layout): Line[] {
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

/** Renders a message, with the results and the latest outputs of its calls. */
export function renderMessageRows(
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
