import type { ContentPart, ApiMessage } from "gantry/client";

/** Splits content into its text and its other parts. */
export function splitContent(content: ApiMessage["content"]): { text: string; parts: ContentPart[] } {
  if (typeof content === "string") return { text: content, parts: [] };
  return {
    text: content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(""),
    parts: content.filter(({ type }) => type !== "text"),
  };
}
