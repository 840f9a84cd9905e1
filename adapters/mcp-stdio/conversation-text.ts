import type { Message, Part, Session } from "gantry";

/** Maximum characters shown of a tool's output; below, of a call's arguments. */
const OUTPUT = 2_000;
const ARGUMENTS = 500;
/** Maximum characters of the whole text. The client requests later messages with `after`. */
const MOST = 500_000;

/**
 * Returns a session's messages as Markdown for a model or a person. Longer conversations end with the number to
 * continue after.
 */
export function conversationText({ id, title, projectDir }: Session, messages: readonly Message[]): string {
  let text = `# ${title}\n\nSession ${id}, in ${projectDir}\n`;
  for (const message of messages) {
    const part = sectionOf(message);
    if (text.length + part.length > MOST)
      return `${text}\n[more behind message ${message.seq - 1}; ask for it with after: ${message.seq - 1}]\n`;
    text += part;
  }
  return text;
}

function sectionOf({ role, name, seq, failed, finished, parts }: Message): string {
  const who = role === "tool" ? `tool ${name}${failed ? " (failed)" : ""}` : role;
  const said = parts.map((part) => partText(part, role)).filter((text) => text !== "");
  return said.length === 0 ? "" : `\n## ${seq} ${who}${finished ? "" : " (broken off)"}\n\n${said.join("\n\n")}\n`;
}

function partText(part: Part, role: Message["role"]): string {
  switch (part.type) {
    case "text":
      return role === "tool" ? cut(part.text, OUTPUT) : (part.originalText ?? part.text);
    case "tool_call":
      return `> ${part.name} ${cut(part.arguments, ARGUMENTS)}`;
    case "reasoning":
      return "";
    default:
      return `[${part.type} ${part.mediaType}]`;
  }
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most).toWellFormed()}… [${text.length - most} more characters]`;
}
