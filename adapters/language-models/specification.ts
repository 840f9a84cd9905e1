import type { ModelCallOptions } from "./language-model.js";

/**
 * Converts options of specification v3 for a model of another version. `effort` is sent to v4 models, unless it is
 * `""`.
 */
export function toSpecification(version: string, options: ModelCallOptions, effort: string): Record<string, unknown> {
  switch (version) {
    case "v2":
      return { ...options, prompt: options.prompt.map(toV2Message) };
    case "v4":
      return { ...options, prompt: options.prompt.map(toV4Message), reasoning: toV4Effort(effort) };
    default:
      return { ...options };
  }
}

/** v4 has no effort above `xhigh`. */
function toV4Effort(effort: string): string | undefined {
  return effort === "max" ? "xhigh" : effort || undefined;
}

type Message = ModelCallOptions["prompt"][number];
type Result = Extract<Extract<Message, { role: "tool" }>["content"][number], { type: "tool-result" }>;
type Output = Extract<Result["output"], { type: "content" }>["value"][number];
type Media = Extract<Output, { type: "image-data" | "file-data" }>;

/** v2 has a single type for media in tool results. */
function toV2Message(message: Message): unknown {
  return convertToolMedia(message, ({ data, mediaType }) => ({ type: "media", data, mediaType }));
}

/** v4 wraps the data of files. */
function toV4Message(message: Message): unknown {
  if (message.role !== "user")
    return convertToolMedia(message, (media) => ({ ...media, type: "file", data: { type: "data", data: media.data } }));
  const content = message.content.map((part) =>
    part.type === "file" ? { ...part, data: { type: "data", data: part.data } } : part,
  );
  return { ...message, content };
}

function convertToolMedia(message: Message, convert: (media: Media) => unknown): unknown {
  if (message.role !== "tool") return message;
  const content = message.content.map((part) => {
    if (part.type !== "tool-result" || part.output.type !== "content") return part;
    const value = part.output.value.map((entry) =>
      entry.type === "image-data" || entry.type === "file-data" ? convert(entry) : entry,
    );
    return { ...part, output: { type: "content", value } };
  });
  return { ...message, content };
}
