import type { Tool } from "gantry";
import type { ModelChunk, ModelMessage, ModelRequest } from "gantry/plugin";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { globTool } from "../../../src/tools/files/glob.js";
import { grepTool } from "../../../src/tools/files/grep.js";
import { listTool } from "../../../src/tools/files/list.js";
import { readTool } from "../../../src/tools/files/read.js";

export function createMessage(role: "user" | "assistant", text: string): ModelMessage {
  return { role, parts: [{ type: "text", text }], toolCallId: "", name: "", failed: false };
}

export const tools: readonly Tool[] = [globTool, grepTool, listTool, readTool].map((createTool) =>
  createTool({ allowPaths: [], deniedPaths: [] }),
);

export const createProvider = (): OfflineProvider => new OfflineProvider({ servers: [] });

export async function collectChunks(stream: AsyncIterable<ModelChunk>): Promise<ModelChunk[]> {
  const chunks: ModelChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

export function getText(chunks: readonly ModelChunk[]): string {
  return chunks.map((chunk) => (chunk.type === "text" ? chunk.text : "")).join("");
}

export function createRequest(messages: readonly ModelMessage[], changes: Partial<ModelRequest> = {}): ModelRequest {
  const [model] = createProvider().configuredModels;
  if (!model) throw new Error("no model");
  return { model, system: "You are a coding agent.", messages, tools, effort: "", cacheKey: "s", ...changes };
}

export interface Conversation {
  messages: ModelMessage[];
  /** Calls since the last prompt, in the form `tool {"arguments"}`. */
  calls: string[];
  answer: string;
  rounds: number;
}

/** Calls the model, runs its tools, and repeats this until the model is done. */
export async function converse(
  projectDir: string,
  prompt: string,
  options: { model?: OfflineProvider; history?: readonly ModelMessage[]; tools?: readonly Tool[] } = {},
): Promise<Conversation> {
  const model = options.model ?? createProvider();
  const offeredTools = options.tools ?? tools;
  const messages: ModelMessage[] = [...(options.history ?? []), createMessage("user", prompt)];
  const calls: string[] = [];
  // The guide needs at most 6 rounds.
  for (let rounds = 1; rounds <= 20; rounds++) {
    const chunks = await collectChunks(
      model.stream(createRequest(messages, { tools: offeredTools }), AbortSignal.timeout(60_000)),
    );
    const text = getText(chunks);
    const toolCalls = chunks.filter((chunk) => chunk.type === "tool_call");
    messages.push({
      ...createMessage("assistant", text),
      parts: [
        { type: "text", text },
        ...toolCalls.map(({ id, name, arguments: input }) => ({
          type: "tool_call" as const,
          id,
          name,
          arguments: input,
        })),
      ],
    });
    if (toolCalls.length === 0) return { messages, calls, answer: text, rounds };
    for (const call of toolCalls) {
      calls.push(`${call.name} ${call.arguments}`);
      messages.push(await runTool(offeredTools, call, projectDir));
    }
  }
  throw new Error("the guide does not end");
}

async function runTool(
  offeredTools: readonly Tool[],
  call: { id: string; name: string; arguments: string },
  projectDir: string,
): Promise<ModelMessage> {
  let output: string;
  let failed = false;
  try {
    const tool = offeredTools.find(({ name }) => name === call.name);
    if (!tool) throw new Error(`no tool ${call.name}`);
    const result = await tool.run(tool.parse(JSON.parse(call.arguments)), {
      runId: "run",
      sessionId: "s",
      callId: call.id,
      projectDir,
      signal: AbortSignal.timeout(60_000),
      ask: async () => "allow",
      askUser: async () => undefined,

      progress: () => undefined,
      spawn: () => Promise.reject(new Error("subagents are not available")),
      state: new Map(),
    });
    output = result.text;
    failed = result.failed ?? false;
  } catch (error) {
    output = (error as Error).message;
    failed = true;
  }
  return { role: "tool", parts: [{ type: "text", text: output }], toolCallId: call.id, name: call.name, failed };
}
