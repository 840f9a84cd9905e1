/** Reads a conversation from a model request of any wire. */
import type { FakeRequest, FakeWireName } from "./fake-model-server.js";
import type { Json } from "./fake-model-server/wire.js";

/** A result of a tool call, as the model receives it. */
export interface WireResult {
  /** On Google's wire not the id that the model sent. */
  readonly callId: string | undefined;
  readonly text: string;
}

/** The parts of a request that a scripted model reacts to, in their order. */
export interface WireConversation {
  readonly system: string;
  /** Texts of the user messages. */
  readonly prompts: readonly string[];
  readonly results: readonly WireResult[];
}

const READERS: Readonly<Record<FakeWireName, (body: Json) => WireConversation>> = {
  openai: ({ messages }) => ({
    system: joinText(messages.find(({ role }: Json) => role === "system" || role === "developer")?.content),
    prompts: readTexts(messages.filter(({ role }: Json) => role === "user")),
    results: messages
      .filter(({ role }: Json) => role === "tool")
      .map(({ tool_call_id: callId, content }: Json) => ({ callId, text: joinText(content) })),
  }),
  "openai-responses": ({ input, instructions }) => ({
    system: joinText(instructions ?? input.find(({ role }: Json) => /^(system|developer)$/.test(role))?.content),
    prompts: readTexts(input.filter(({ role }: Json) => role === "user")),
    results: input
      .filter(({ type }: Json) => type === "function_call_output")
      .map(({ call_id: callId, output }: Json) => ({ callId, text: joinText(output) })),
  }),
  anthropic: ({ system, messages }) => {
    const contents: Json[] = messages.filter(({ role }: Json) => role === "user").map(({ content }: Json) => content);
    const blocks = contents.flatMap((content) => (Array.isArray(content) ? content : []));
    return {
      system: joinText(system),
      prompts: contents.map(joinText).filter((text) => text !== ""),
      results: blocks
        .filter(({ type }: Json) => type === "tool_result")
        .map(({ tool_use_id: callId, content }: Json) => ({ callId, text: joinText(content) })),
    };
  },
  google: ({ systemInstruction, contents }) => ({
    system: joinText(systemInstruction?.parts),
    prompts: contents
      .filter(({ role }: Json) => role === "user")
      .map(({ parts }: Json) => joinText(parts))
      .filter((text: string) => text !== ""),
    results: contents
      .flatMap(({ parts }: Json) => parts)
      .filter(({ functionResponse }: Json) => functionResponse !== undefined)
      .map(({ functionResponse: { id, response } }: Json) => ({
        callId: id as string | undefined,
        text: joinText(response.content ?? response.output ?? response.error ?? JSON.stringify(response)),
      })),
  }),
};

/** Reads the conversation of a request that the fake model server accepted. */
export function readConversation({ wire, body }: FakeRequest): WireConversation {
  if (wire === undefined) throw new Error("the request is no model request");
  return READERS[wire](body);
}

/**
 * Returns a request of any wire in the order in which providers cache it: tools, system prompt, messages. Without the
 * marks of cache points, which move with the end of the conversation and are no part of the cached text.
 */
export function readCachedText(body: Json): string {
  const { tools = [], system = body.instructions ?? body.systemInstruction, messages } = body;
  const items: Json[] = [...tools, system, ...(messages ?? body.input ?? body.contents)];
  const omitMarks = (key: string, value: unknown): unknown => (key === "cache_control" ? undefined : value);
  return items.map((item) => JSON.stringify(item, omitMarks)).join("\n");
}

function readTexts(messages: readonly Json[]): string[] {
  return messages.map(({ content }) => joinText(content));
}

function joinText(content: Json): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map(({ text = "" }: { text?: string }) => text).join("") : "";
}
