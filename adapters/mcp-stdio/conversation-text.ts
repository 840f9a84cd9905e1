import type { Message, Part, Session } from "gantry";

/** Maximum characters shown of a tool's output; below, of a call's arguments. */
const MAX_OUTPUT_CHARACTERS = 2_000;
const MAX_ARGUMENTS_CHARACTERS = 500;
/** Maximum characters of the whole text. The client requests later messages with `after`. */
const MAX_CONVERSATION_CHARACTERS = 500_000;

/**
 * Returns a session's messages as Markdown for a model or a person. Longer conversations end with the number to
 * continue after.
 */
export function conversationText({ id, title, projectDir }: Session, messages: readonly Message[]): string {
  let text = `# ${title}\n\nSession ${id}, in ${projectDir}\n`;
  for (const message of messages) {
    const part = sectionOf(message);
    if (text.length + part.length > MAX_CONVERSATION_CHARACTERS)
      return `${text}\n[more messages after ${message.seq - 1}; request them with after: ${message.seq - 1}]\n`;
    text += part;
  }
  return text;
}

function sectionOf({ role, name, seq, failed, finished, parts }: Message): string {
  const speaker = role === "tool" ? `tool ${name}${failed ? " (failed)" : ""}` : role;
  const texts = parts.map((part) => partText(part, role)).filter((text) => text !== "");
  return texts.length === 0
    ? ""
    : `\n## ${seq} ${speaker}${finished ? "" : " (interrupted)"}\n\n${texts.join("\n\n")}\n`;
}

function partText(part: Part, role: Message["role"]): string {
  switch (part.type) {
    case "text":
      return role === "tool" ? cut(part.text, MAX_OUTPUT_CHARACTERS) : (part.originalText ?? part.text);
    case "tool_call":
      return `> ${part.name} ${cut(part.arguments, MAX_ARGUMENTS_CHARACTERS)}`;
    case "reasoning":
      return "";
    default:
      return `[${part.type} ${part.mediaType}]`;
  }
}

function cut(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters
    ? text
    : `${text.slice(0, maxCharacters).toWellFormed()}… [${text.length - maxCharacters} more characters]`;
}
