import { execFile } from "node:child_process";
import { promisify } from "node:util";
import {
  textStep,
  startFakeModelServer,
  type FakeModelServer,
  type FakeModelServerOptions,
} from "./fake-model-server.js";
import type { GantryServer } from "./server.js";
import type { Hooks } from "./temp-dir.js";

/** A fake model server that answers title requests automatically; closed after the test. */
export async function startModelServer(hooks: Hooks, options: FakeModelServerOptions = {}): Promise<FakeModelServer> {
  const models = await startFakeModelServer({ toolFreeAnswer: textStep("A title"), ...options });
  hooks.after(() => models.close());
  return models;
}

/** Config of a server that uses the fake model server. `overrides` replaces whole keys. */
export function createServerConfig(
  models: FakeModelServer,
  overrides: Record<string, unknown> = {},
): Record<string, unknown> {
  const provider = {
    name: "lab",
    driver: "openai",
    base_url: models.baseUrl,
    api_key: "key-of-the-lab",
    models: [{ id: "m1" }],
  };
  return { providers: [provider], ...overrides };
}

export interface RunResponse {
  status: number;
  sessionId: string;
  output: string;
  error: string;
}

/** Runs a prompt without streaming. */
export async function runPrompt(
  server: Pick<GantryServer, "fetch">,
  body: object,
  headers: Record<string, string> = {},
): Promise<RunResponse> {
  const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify(body), headers });
  const { output = "", error = "" } = (await response.json()) as Partial<RunResponse>;
  return { status: response.status, sessionId: response.headers.get("x-session-id") ?? "", output, error };
}

/** A streamed run, read while it arrives. */
export interface StreamedRun {
  readonly sessionId: string;
  /** Received text, with the time of each piece. */
  readonly pieces: readonly { receivedAtMs: number; text: string }[];
  /** The last received event. */
  readonly latestEvent: { event: string; data: Record<string, unknown> } | undefined;
  /** Resolves when `length` characters have arrived; rejects if the stream ends first. */
  waitForCharacters(length: number): Promise<void>;
  /** Resolves when the stream has ended, also if it was interrupted. */
  readonly ended: Promise<void>;
}

/** Starts a streamed run. Resolves when the response headers arrive. */
export async function startStreamedRun(server: GantryServer, body: object, signal?: AbortSignal): Promise<StreamedRun> {
  const init = { method: "POST", body: JSON.stringify({ ...body, stream: true }), ...(signal ? { signal } : {}) };
  const response = await server.fetch("/api/run", init);
  if (response.status !== 200 || !response.body) throw new Error(`${response.status}: ${await response.text()}`);
  const pieces: { receivedAtMs: number; text: string }[] = [];
  const progress = { latestEvent: undefined as StreamedRun["latestEvent"], hasEnded: false };
  const readStream = async (bytes: AsyncIterable<Uint8Array>): Promise<void> => {
    const decoder = new TextDecoder();
    let incompleteText = "";
    try {
      for await (const piece of bytes) {
        const blocks = (incompleteText + decoder.decode(piece, { stream: true })).split("\n\n");
        incompleteText = blocks.pop() ?? "";
        for (const block of blocks) {
          const [, event = "", data = "{}"] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
          if (event === "") continue;
          progress.latestEvent = { event, data: JSON.parse(data) as Record<string, unknown> };
          const { content } = progress.latestEvent.data;
          if (typeof content === "string") pieces.push({ receivedAtMs: Date.now(), text: content });
        }
      }
    } catch {
      // The connection was interrupted.
    }
    progress.hasEnded = true;
  };
  const ended = readStream(response.body as AsyncIterable<Uint8Array>);
  const countCharacters = () => pieces.reduce((sum, { text }) => sum + text.length, 0);
  return {
    sessionId: response.headers.get("x-session-id") ?? "",
    pieces,
    get latestEvent() {
      return progress.latestEvent;
    },
    async waitForCharacters(requiredLength) {
      while (countCharacters() < requiredLength) {
        if (progress.hasEnded) throw new Error(`the stream ended with ${JSON.stringify(progress.latestEvent)}`);
        await pause(5);
      }
    },
    ended,
  };
}

export interface StoredMessage {
  id: string;
  /** Present only for incomplete messages. */
  finished?: false;
  role: string;
  content: string;
}

/** The stored messages of a session. */
export async function fetchMessages(server: GantryServer, sessionId: string): Promise<StoredMessage[]> {
  const response = await server.fetch(`/api/sessions/${sessionId}/messages`);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return ((await response.json()) as { messages: StoredMessage[] }).messages;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Limit of `waitUntil`. Only a condition that never becomes true reaches the limit, even on a loaded machine. */
const UNTIL_LIMIT_MS = 120_000;

/**
 * Checks the condition every 5 ms and resolves when it is true. Rejects with the condition's text after two minutes.
 */
export async function waitUntil(condition: () => unknown): Promise<void> {
  const deadline = performance.now() + UNTIL_LIMIT_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${UNTIL_LIMIT_MS} ms: ${condition.toString()}`);
    await pause(5);
  }
}

/** A sleep duration in seconds that no other process uses. */
export function pickUniqueSeconds(): number {
  return 100_000 + Math.floor(Math.random() * 1e9);
}

/** Number of processes, in any sandbox, whose command line contains this text. */
export async function countProcesses(text: string): Promise<number> {
  const { stdout } = await promisify(execFile)("pgrep", ["-fc", "--", text]).catch(() => ({ stdout: "0" }));
  return Number(stdout);
}
