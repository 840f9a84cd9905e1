import { Agent, builtinTools } from "gantry";
import { AiSdkProvider, type WireName } from "gantry/adapters/language-models";
import type { PromptFamily } from "../../src/run/prompt/system-prompt.js";
import { startFakeModelServer } from "./fake-model-server.js";
import { baseUrlOf } from "./model-situations.js";
import { makeTempDir } from "./temp-dir.js";

/** A model of each family, and the wire of its maker. */
export const FAMILY_MODELS: readonly { readonly family: PromptFamily; readonly id: string; readonly wire: WireName }[] =
  [
    { family: "claude", id: "claude-sonnet-4-5", wire: "anthropic" },
    { family: "gpt", id: "gpt-5.1-codex", wire: "openai-responses" },
    { family: "gemini", id: "gemini-2.5-pro", wire: "google" },
    { family: "other", id: "deepseek-chat", wire: "openai" },
    { family: "small", id: "qwen2.5-coder:7b", wire: "openai" },
  ];

/** The body of a chat-completions request. */
export interface ChatBody {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly tools: readonly { readonly function: { readonly name: string; readonly description: string } }[];
}

/**
 * Runs the prompt `hi` with the built-in tools in an empty folder. Returns the body of the first request to the model.
 * `isAttended`: whether a user can answer questions.
 */
export async function captureFirstRequest(id: string, wire: WireName, isAttended: boolean): Promise<unknown> {
  await using folder = await makeTempDir();
  const server = await startFakeModelServer();
  try {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: wire,
      baseUrl: baseUrlOf(wire, server),
      apiKey: "k",
      models: [{ id, contextWindow: 128_000 }],
    });
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    try {
      const model = `lab/${id}`;
      const run = await agent.run({
        message: "hi",
        model,
        ...(isAttended && { ask: () => Promise.resolve("reject") }),
      });
      await run.result;
    } finally {
      await agent.close();
    }
    return server.lastRunRequest?.body;
  } finally {
    await server.close();
  }
}

/** Size of a value as JSON, in bytes. */
export function countJsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
