import type { CallOptions } from "./language-model.js";

/** Options of specification v3 as a model of another version takes them. */
export function forSpecification(version: string, options: CallOptions, effort: string): Record<string, unknown> {
  switch (version) {
    case "v2":
      return { ...options, prompt: options.prompt.map(message2) };
    case "v4":
      return { ...options, prompt: options.prompt.map(message4), ...(effort === "" ? {} : { reasoning: effort }) };
    default:
      return { ...options };
  }
}

type Message = CallOptions["prompt"][number];

/** v2 knows one word for media in results of tools. */
function message2(message: Message): unknown {
  if (message.role !== "tool") return message;
  return {
    ...message,
    content: message.content.map((part) => {
      if (part.type !== "tool-result" || part.output.type !== "content") return part;
      const value = part.output.value.map((entry) =>
        entry.type === "image-data" || entry.type === "file-data"
          ? { type: "media", data: entry.data, mediaType: entry.mediaType }
          : entry,
      );
      return { ...part, output: { type: "content", value } };
    }),
  };
}

/** v4 tags the data of files. */
function message4(message: Message): unknown {
  if (message.role === "user") {
    return {
      ...message,
      content: message.content.map((part) =>
        part.type === "file" ? { ...part, data: { type: "data", data: part.data } } : part,
      ),
    };
  }
  if (message.role !== "tool") return message;
  return {
    ...message,
    content: message.content.map((part) => {
      if (part.type !== "tool-result" || part.output.type !== "content") return part;
      const value = part.output.value.map((entry) =>
        entry.type === "image-data" || entry.type === "file-data"
          ? {
              type: "file",
              data: { type: "data", data: entry.data },
              mediaType: entry.mediaType,
              ...(entry.type === "file-data" && entry.filename !== undefined ? { filename: entry.filename } : {}),
            }
          : entry,
      );
      return { ...part, output: { type: "content", value } };
    }),
  };
}
