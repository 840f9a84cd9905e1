import type { ApiMessage } from "gantry/client";
import { splitContent } from "../timeline/split-content.js";
import { labelCall, parseArguments } from "../timeline/tool-labels.js";

/** A conversation as Markdown: prompts and answers with headings, and a line for each tool call. */
export function formatConversation(title: string, messages: readonly ApiMessage[]): string {
  const failedCallIds = new Set(messages.flatMap((message) => (message.failed ? [message.tool_call_id] : [])));
  const sections = messages.flatMap((message) => {
    if (message.role !== "user" && message.role !== "assistant") return [];
    const body = formatMessage(message, failedCallIds);
    return body === "" ? [] : [{ heading: message.role === "user" ? "You" : "Agent", body }];
  });
  const texts = sections.map(({ heading, body }, index) =>
    // An answer with tool calls consists of several messages.
    sections[index - 1]?.heading === heading && heading === "Agent" ? body : `## ${heading}\n\n${body}`,
  );
  return [`# ${title.replace(/\s+/g, " ") || "No title"}`, ...texts].join("\n\n").concat("\n");
}

function formatMessage({ content, tool_calls: calls }: ApiMessage, failedCallIds: ReadonlySet<string>): string {
  const { text, parts } = splitContent(content);
  const files = parts.map((part) => `- File: ${part.type === "file" && part.filename ? part.filename : part.type}`);
  const callLines = calls.map(({ id, function: { name, arguments: json } }) => {
    const { verb, target } = labelCall(name, parseArguments(json));
    return `- ${verb}${target === "" ? "" : ` ${toCode(target)}`}${failedCallIds.has(id) ? " (failed)" : ""}`;
  });
  return [text.trim(), [...files, ...callLines].join("\n")].filter((part) => part !== "").join("\n\n");
}

/** Inline code with a fence that the text does not contain. */
function toCode(text: string): string {
  const fence = "`".repeat(Math.max(0, ...(text.match(/`+/g) ?? []).map(({ length }) => length)) + 1);
  return fence.length === 1 ? `\`${text}\`` : `${fence} ${text} ${fence}`;
}
