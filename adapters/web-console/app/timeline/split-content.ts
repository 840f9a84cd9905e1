import type { ContentPart, ApiMessage } from "gantry/client";

/** Splits the content of a message into its joined text and its other parts. */
export function splitContent(content: ApiMessage["content"]): { text: string; parts: ContentPart[] } {
  if (typeof content === "string") return { text: content, parts: [] };
  return {
    text: content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(""),
    parts: content.filter(({ type }) => type !== "text"),
  };
}
