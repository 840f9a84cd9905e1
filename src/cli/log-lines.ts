import { isRecord } from "../base/json.js";

/** A line of the logger: time, level, message, and fields as JSON. */
const LINE_PATTERN = /^\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\S* (debug|info|warn|error) (.*)$/;

/**
 * Formats a line of the logger for a person at a terminal: the time of day in UTC, the level, the message, and the
 * fields as `name=value`. Returns other lines unchanged. Stacks of errors are left out.
 */
export function formatLogLine(line: string): string {
  const [, time, level = "", text = ""] = LINE_PATTERN.exec(line) ?? [];
  if (time === undefined) return line;
  const { message, fields } = splitFields(text);
  const fieldTexts = Object.entries(fields).map(([name, value]) => `${name}=${formatField(value)}`);
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

function formatField(value: unknown): string {
  const shownValue = isRecord(value) && typeof value["message"] === "string" ? value["message"] : value;
  if (typeof shownValue === "string" && /^[^\s"=]+$/.test(shownValue)) return shownValue;
  return JSON.stringify(shownValue);
}
