import type { ApiMessage } from "gantry/client";
import type { OutboxEntry } from "./console-outbox.js";

/** The server joins late instructions of an ended run with this text. */
const SEPARATOR = "\n\n";

/** The entries whose text is in one of the messages. A message is the message of one prompt only. */
export function findReadEntries(entries: readonly OutboxEntry[], messages: readonly ApiMessage[]): OutboxEntry[] {
  const userTexts = messages
    .filter(({ role }) => role === "user")
    .map(({ seq, content }) => ({ seq, text: readText(content) }));
  return entries.filter(({ kind, text, after, isHeld, runId }) => {
    if (isHeld && runId === "") return false;
    const trimmedText = text.trim();
    const index = userTexts.findIndex(
      ({ seq, text: messageText }) =>
        seq > after &&
        (messageText.trim() === trimmedText ||
          (kind === "steer" && `${SEPARATOR}${messageText}${SEPARATOR}`.includes(`${SEPARATOR}${text}${SEPARATOR}`))),
    );
    const message = userTexts[index];
    if (!message) return false;
    if (message.text.trim() === trimmedText) userTexts.splice(index, 1);
    return true;
  });
}

function readText(content: ApiMessage["content"]): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
