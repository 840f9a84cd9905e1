import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "../../agent/agent.js";
import { MemoryDriver } from "../../memory-driver/memory-driver.js";
import type { ModelChunk } from "../../ports/model-provider.js";
import type { Listening, Transport } from "../../plugin/transport.js";
import { DEFAULT_TIMEOUT_MS, countOpenResources, withTimeout, waitUntil, type CheckRules } from "../check.js";
import { ScriptedProvider } from "../scripted-provider.js";
import type { TransportClient, TransportFixture } from "./fixture.js";

/** Time to wait before a check asserts that an effect has not happened. */
export const OBSERVATION_MS = 50;
/** A prompt without an answer after this time counts as not served. */
const MAX_SILENCE_MS = 300;

export type TransportRules = CheckRules<[harness: TransportHarness]>;

/** The setup of one check: an agent with a scripted model, a transport and clients. */
export class TransportHarness {
  readonly fixture: TransportFixture;
  readonly transport: Transport;
  readonly provider = new ScriptedProvider();
  readonly agent: Agent;
  /** Outcomes of the runs, in order. */
  readonly runOutcomes: ("finished" | "failed")[] = [];
  /** Open resources before the transport was created. */
  readonly resourcesBefore: ReadonlyMap<string, number>;
  readonly timeoutMs: number;
  readonly #folder: string;
  readonly #clients: TransportClient[] = [];
  readonly #listenings: Listening[] = [];

  private constructor(
    fixture: TransportFixture,
    transport: Transport,
    folder: string,
    resourcesBefore: ReadonlyMap<string, number>,
  ) {
    this.fixture = fixture;
    this.transport = transport;
    this.resourcesBefore = resourcesBefore;
    this.timeoutMs = fixture.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#folder = folder;
    this.agent = new Agent({ providers: [this.provider], driver: new MemoryDriver(), projectDir: folder });
    this.agent.on("run.finished", () => this.runOutcomes.push("finished"));
    this.agent.on("run.failed", () => this.runOutcomes.push("failed"));
  }

  static async create(fixture: TransportFixture): Promise<TransportHarness> {
    const resourcesBefore = countOpenResources();
    const transport = await fixture.create();
    const folder = await mkdtemp(join(tmpdir(), "gantry-transport-"));
    return new TransportHarness(fixture, transport, folder, resourcesBefore);
  }

  async start(): Promise<Listening> {
    const listening = await this.withTimeLimit(this.transport.start(this.agent), "start");
    this.#listenings.push(listening);
    return listening;
  }

  async connect(listening: Listening): Promise<TransportClient> {
    const client = await this.withTimeLimit(this.fixture.connect(listening), "a client connects");
    this.#clients.push(client);
    return client;
  }

  withTimeLimit<T>(promise: Promise<T>, label: string): Promise<T> {
    return withTimeout(promise, label, this.timeoutMs);
  }

  waitUntil(condition: () => boolean, label: string): Promise<void> {
    return waitUntil(condition, label, this.timeoutMs);
  }

  /**
   * Sends a prompt and waits until its answer begins with `firstPiece`. The provider's script determines the answer.
   */
  async beginPrompt(
    client: TransportClient,
    firstPiece = "begun ",
  ): Promise<{ answer: Promise<{ text: string; sessionId: string }> }> {
    let text = "";
    const answer = client.prompt("begin", { onText: (piece) => (text += piece) });
    // Not every check awaits the answer: avoid an unhandled rejection.
    answer.catch(() => undefined);
    await this.waitUntil(() => text.startsWith(firstPiece), "the first piece of an answer");
    return { answer };
  }

  /** Asserts that a prompt sent after a stop is not served. `connect` returns the client that sends the prompt. */
  async expectNotServed(connect: () => Promise<TransportClient>, label: string): Promise<void> {
    const requestCount = this.provider.requests.length;
    const promptPromise = (async () => {
      const client = await connect();
      this.#clients.push(client);
      return client.prompt("too late");
    })();
    const outcome = await Promise.race([
      promptPromise.then(
        ({ text }) => `answered ${JSON.stringify(text)}`,
        () => "refused",
      ),
      new Promise<string>((resolve) => setTimeout(() => resolve("silent"), Math.min(MAX_SILENCE_MS, this.timeoutMs))),
    ]);
    assert.match(outcome, /^(refused|silent)$/, label);
    assert.equal(this.provider.requests.length, requestCount, label);
  }

  /** Closes clients, transports and the agent, and cleans up. */
  async close(): Promise<void> {
    const closePromises: Promise<unknown>[] = [
      // In an async function, because a faulty implementation can throw synchronously.
      ...this.#clients.map(async (client) => client.close()),
      ...this.#listenings.map(async (listening) => listening.stop(AbortSignal.abort())),
    ];
    // Another check tests a stop that hangs. Here a hang must not block the next check.
    await Promise.allSettled(closePromises.map((closePromise) => this.withTimeLimit(closePromise, "cleanup")));
    try {
      await this.agent.close();
    } finally {
      // Before the fixture's cleanup, which may wait for resources that a faulty transport left open.
      await rm(this.#folder, { recursive: true, force: true });
      await this.fixture.clean();
    }
  }
}

export function createTextChunk(content: string): ModelChunk {
  return { type: "text", block: "0", text: content };
}
