import type { Model, ModelProvider } from "./ports/model-provider.js";

const MAX_CHARACTERS = 50;

const INSTRUCTIONS = `You name conversations. Answer with a title for the conversation that begins with the user's message, and nothing else.
At most ${MAX_CHARACTERS} characters, in the language of the message. No quotes, no full stop, no tool names. Do not answer the message.`;

/**
 * Ask a model for a title: temperature 0.3, no tools. `""` when it gave none. Rejects as the provider does.
 */
export async function generateTitle(
  provider: ModelProvider,
  model: Model,
  message: string,
  sessionId: string,
  signal: AbortSignal,
): Promise<string> {
  let text = "";
  const request = {
    model,
    system: INSTRUCTIONS,
    messages: [
      {
        role: "user" as const,
        parts: [{ type: "text" as const, text: message.slice(0, 2000) }],
        toolCallId: "",
        name: "",
        failed: false,
      },
    ],
    tools: [],
    temperature: 0.3,
    effort: model.reasoning ? ("minimal" as const) : ("" as const),
    cacheKey: `${sessionId}-title`,
  };
  for await (const chunk of provider.stream(request, signal)) {
    if (chunk.type === "text") text += chunk.text;
    if (text.length > 4000) break;
  }
  return cleanTitle(text);
}

/** Whitespace folded, quotes and a final full stop stripped, cut at 50 characters on a grapheme boundary. */
export function cleanTitle(text: string): string {
  // Local models think aloud in tags; the title is what follows.
  let title = text
    .replace(/<think>[\s\S]*?(<\/think>|$)/g, " ")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  const quotes = /^["'`“”„«»‘’「『*#\s]+|["'`“”„«»‘’」』*\s]+$/gu;
  title = title.replace(quotes, "");
  title = title.replace(/(?<![.])[.。]$/u, "").replace(quotes, "");
  if (title.length <= MAX_CHARACTERS) return title;
  let cut = "";
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(title)) {
    if (cut.length + segment.length > MAX_CHARACTERS) break;
    cut += segment;
  }
  return cut.trimEnd();
}
