import { isRecord } from "../base/json.js";

/** A line of the logger: time, level, message, and fields as JSON. */
const LINE_PATTERN = /^\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\S* (debug|info|warn|error) (.*)$/;

/**
 * Formats a line of the logger for a person at a terminal: the time of day in UTC, the level, the message, and the
 * fields as `name=value`, nested fields as `name.key=value`. Returns other lines unchanged. Stacks of errors are left out.
 */
export function formatLogLine(line: string): string {
  const [, time, level = "", text = ""] = LINE_PATTERN.exec(line) ?? [];
  if (time === undefined) return line;
  const { message, fields } = splitFields(text);
  const fieldTexts = Object.entries(fields).flatMap(([name, value]) => formatField(name, value));
  return `${time} ${level.padEnd(5)} ${[message, ...fieldTexts].join("  ")}`;
}

/** Splits the fields from a message, which can contain braces too. */
function splitFields(text: string): { message: string; fields: Readonly<Record<string, unknown>> } {
  for (let start = text.indexOf(" {"); start !== -1; start = text.indexOf(" {", start + 1)) {
    try {
      const fields: unknown = JSON.parse(text.slice(start + 1));
      if (isRecord(fields)) return { message: text.slice(0, start), fields };
    } catch {
      // The brace belongs to the message.
    }
  }
  return { message: text, fields: {} };
}

/** Returns `name=value`, for a nested value several such texts. */
function formatField(name: string, value: unknown): string[] {
  if (isRecord(value) && typeof value["message"] === "string") return [`${name}=${formatScalar(joinMessages(value))}`];
  if (Array.isArray(value) && value.length > 0 && !value.some((item) => typeof item === "object" && item !== null))
    return [`${name}=${value.map(formatScalar).join(",")}`];
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : undefined;
  if (!entries) return [`${name}=${formatScalar(value)}`];
  return entries.length === 0
    ? [`${name}=none`]
    : entries.flatMap(([key, nested]) => formatField(`${name}.${key}`, nested));
}

/** Message of a serialised error, with the messages of its causes. */
function joinMessages(error: Readonly<Record<string, unknown>>): string {
  const messages: unknown[] = [];
  for (let cause: unknown = error; isRecord(cause); cause = cause["cause"]) messages.push(cause["message"]);
  return messages.filter((message) => typeof message === "string").join(": ");
}

function formatScalar(value: unknown): string {
  return typeof value === "string" && /^[^\s"=,]+$/.test(value) ? value : JSON.stringify(value);
}
