import { cutMiddle } from "../base/cut-text.js";
import { toPrintable } from "../base/printable.js";
import type { ModelMessage, Part } from "../ports/message.js";
import { listChangedFiles } from "../tools/files/changed-files.js";
import { findStoredPlan } from "../tools/agent/todo.js";
import { isSummary } from "./units.js";

/** Marks the message part that repeats the state of the session. */
const STATE_HEADER = "[State of this session, attached again because older messages left the context window]";
/** Maximum listed files. */
const MAX_FILES = 100;
const STATUS_MARKS = { pending: "[ ]", in_progress: "[>]", completed: "[x]" } as const;

/**
 * Appends the session's todo list and changed files, in at most `bytes` bytes, to the summary. Without a summary,
 * appends to the first user message. Returns the same array if there is nothing to append.
 */
export function attachState(
  messages: ModelMessage[],
  state: ReadonlyMap<string, unknown>,
  bytes: number,
): ModelMessage[] {
  const text = formatState(state);
  const target = messages.find(isSummary) ?? messages.find(({ role }) => role === "user");
  if (text === "" || !target) return messages;
  const part: Part = { type: "text", text: cutMiddle(text, bytes) };
  return messages.map((message) => (message === target ? { ...message, parts: [...message.parts, part] } : message));
}

/** Removes the state that an earlier compaction attached. */
export function detachState<M extends ModelMessage>(message: M): M {
  // The first part is always the message's own text; the state is appended to it.
  const parts = message.parts.filter(
    (part, i) => i === 0 || part.type !== "text" || !part.text.startsWith(STATE_HEADER),
  );
  return parts.length === message.parts.length ? message : { ...message, parts };
}

/** Formats todos and changed files; `""` if the state has neither. */
function formatState(state: ReadonlyMap<string, unknown>): string {
  const todos = (findStoredPlan(state) ?? []).map(({ content, status }) => `${STATUS_MARKS[status]} ${content}`);
  const files = listChangedFiles(state);
  const olderCount = files.length - MAX_FILES;
  const lines = files.slice(-MAX_FILES).map((path) => `- ${toPrintable(path)}`);
  if (olderCount > 0) lines.unshift(`- ${olderCount} more, changed earlier`);
  const sections = [
    ...(todos.length > 0 ? [`Todo list:\n${todos.join("\n")}`] : []),
    ...(files.length > 0 ? [`Files changed by tools (commands may have changed others):\n${lines.join("\n")}`] : []),
  ];
  return sections.length === 0 ? "" : [STATE_HEADER, ...sections].join("\n\n");
}
