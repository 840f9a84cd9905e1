import type { Message, Part, Session } from "gantry";

/** Maximum characters shown of a tool's output. */
const MAX_OUTPUT_CHARACTERS = 2_000;
/** Maximum characters shown of a call's arguments. */
const MAX_ARGUMENTS_CHARACTERS = 500;
/** Maximum characters of the whole text. The client requests later messages with `after`. */
const MAX_CONVERSATION_CHARACTERS = 500_000;

/**
 * Returns a session's messages as Markdown for a model or a person. A longer conversation ends with the message number
 * after which the client can continue.
 */
export function formatConversation({ id, title, projectDir }: Session, messages: readonly Message[]): string {
  let text = `# ${title}\n\nSession ${id}, in ${projectDir}\n`;
  for (const message of messages) {
    const section = formatSection(message);
    if (text.length + section.length > MAX_CONVERSATION_CHARACTERS)
      return `${text}\n[more messages after ${message.seq - 1}; request them with after: ${message.seq - 1}]\n`;
    text += section;
  }
  return text;
}

function formatSection({ role, name, seq, failed, finished, parts }: Message): string {
  const speaker = role === "tool" ? `tool ${name}${failed ? " (failed)" : ""}` : role;
  const texts = parts.map((part) => formatPart(part, role)).filter((text) => text !== "");
  return texts.length === 0
    ? ""
    : `\n## ${seq} ${speaker}${finished ? "" : " (interrupted)"}\n\n${texts.join("\n\n")}\n`;
}

function formatPart(part: Part, role: Message["role"]): string {
  switch (part.type) {
    case "text":
      return role === "tool" ? truncate(part.text, MAX_OUTPUT_CHARACTERS) : (part.originalText ?? part.text);
    case "tool_call":
      return `> ${part.name} ${truncate(part.arguments, MAX_ARGUMENTS_CHARACTERS)}`;
    case "reasoning":
      return "";
    default:
      return `[${part.type} ${part.mediaType}]`;
  }
}

function truncate(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters
    ? text
    : `${text.slice(0, maxCharacters).toWellFormed()}… [${text.length - maxCharacters} more characters]`;
}
