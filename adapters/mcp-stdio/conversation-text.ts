import type { Message, Part, Session } from "gantry";

/** Of a tool's output, and of a call's arguments, so many characters are shown. */
const OUTPUT = 2_000;
const ARGUMENTS = 500;
/** Of all; the rest is asked for by its number. */
const MOST = 500_000;

/** What was said in a session, for a model or a person to read. */
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
      return role === "tool" ? cut(part.text, OUTPUT) : (part.typed ?? part.text);
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
