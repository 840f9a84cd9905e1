import type { ModelCall, Part } from "gantry";

/** Maximum characters of an attribute with content. */
const MAX_CHARACTERS = 16_384;

export type Redact = (text: string) => string;

/** Returns a text for a span: cut, then without secrets. */
export function toContent(text: string, redact: Redact): string {
  return redact(text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS - 1)}…` : text);
}

type PartData = Record<string, unknown>;

/** A part in the form of the GenAI semantic conventions. Data of files and images is left out. */
function toPartData(part: Part): PartData {
  switch (part.type) {
    case "text":
      return { type: "text", content: part.text };
    case "reasoning":
      return { type: "reasoning", content: part.text };
    case "tool_call":
      return { type: "tool_call", id: part.id, name: part.name, arguments: part.arguments };
    default:
      return { type: part.type };
  }
}

/** `gen_ai.output.messages` of an answer. */
export function formatAnswer(parts: readonly Part[], finishReason: string, redact: Redact): string {
  const message = { role: "assistant", parts: parts.map(toPartData), finish_reason: finishReason };
  return toContent(JSON.stringify([message]), redact);
}

/** `gen_ai.input.messages` of a request: the newest messages that fit. */
export function formatRequest({ request }: ModelCall, redact: Redact): string {
  const texts: string[] = [];
  let length = 0;
  for (const { role, parts } of [...request.messages].reverse()) {
    const text = JSON.stringify({ role, parts: parts.map(toPartData) });
    length += text.length;
    if (texts.length > 0 && length > MAX_CHARACTERS) break;
    texts.unshift(text);
  }
  return toContent(`[${texts.join(",")}]`, redact);
}
