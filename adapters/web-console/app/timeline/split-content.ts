import type { ContentPart, Message } from "gantry/client";

/** Text, and what is none. */
export function splitContent(content: Message["content"]): { text: string; parts: ContentPart[] } {
  if (typeof content === "string") return { text: content, parts: [] };
  return {
    text: content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(""),
    parts: content.filter(({ type }) => type !== "text"),
  };
}
