import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "../../agent/agent.js";
import { MemoryDriver } from "../../memory-driver/memory-driver.js";
import type { ModelChunk } from "../../ports/model-provider.js";
import type { Listening, Transport } from "../../plugin/transport.js";
import { openThings, soon, until, type Rules } from "../check.js";
import { ScriptedProvider } from "../scripted-provider.js";
import type { TransportClient, TransportFixture } from "./fixture.js";

export type TransportRules = Rules<[stage: TransportHarness]>;

/** What a check plays on: an agent whose model says what it is told, a transport, clients. */
export class TransportHarness {
  readonly fixture: TransportFixture;
  readonly transport: Transport;
  readonly provider = new ScriptedProvider();
  readonly agent: Agent;
  /** How runs ended, in order. */
  readonly ended: ("finished" | "failed")[] = [];
  /** What was open before the transport was made. */
  readonly before: ReadonlyMap<string, number>;
  readonly timeoutMs: number;
  readonly #folder: string;
  readonly #clients: TransportClient[] = [];
  readonly #listening: Listening[] = [];

  private constructor(
    fixture: TransportFixture,
    transport: Transport,
    folder: string,
    before: ReadonlyMap<string, number>,
  ) {
    this.fixture = fixture;
    this.transport = transport;
    this.before = before;
    this.timeoutMs = fixture.timeoutMs ?? 10_000;
    this.#folder = folder;
    this.agent = new Agent({ providers: [this.provider], driver: new MemoryDriver(), projectDir: folder });
    this.agent.on("run.finished", () => this.ended.push("finished"));
    this.agent.on("run.failed", () => this.ended.push("failed"));
  }

  static async set(fixture: TransportFixture): Promise<TransportHarness> {
    const before = openThings();
    const transport = await fixture.create();
    const folder = await mkdtemp(join(tmpdir(), "gantry-transport-"));
    return new TransportHarness(fixture, transport, folder, before);
  }

  async start(): Promise<Listening> {
    const listening = await this.soon(this.transport.start(this.agent), "start");
    this.#listening.push(listening);
    return listening;
  }

  async connect(listening: Listening): Promise<TransportClient> {
    const client = await this.soon(this.fixture.connect(listening), "a client connects");
    this.#clients.push(client);
    return client;
  }

  soon<T>(promise: Promise<T>, what: string): Promise<T> {
    return soon(promise, what, this.timeoutMs);
  }

  until(test: () => boolean, what: string): Promise<void> {
    return until(test, what, this.timeoutMs);
  }

  /** A prompt whose answer has begun, with `first`, and goes on as the script says. */
  async begun(
    client: TransportClient,
    first = "begun ",
  ): Promise<{ answer: Promise<{ text: string; sessionId: string }> }> {
    let text = "";
    const answer = client.prompt("begin", { onText: (piece) => (text += piece) });
    // Looked at later, or not at all.
    answer.catch(() => undefined);
    await this.until(() => text.startsWith(first), "the first piece of an answer");
    return { answer };
  }

  /** A prompt that comes late must not be served. */
  async notServed(connect: () => Promise<TransportClient>, why: string): Promise<void> {
    const requests = this.provider.requests.length;
    const attempt = (async () => {
      const client = await connect();
      this.#clients.push(client);
      return client.prompt("too late");
    })();
    const settled = await Promise.race([
      attempt.then(
        ({ text }) => `answered ${JSON.stringify(text)}`,
        () => "refused",
      ),
      new Promise<string>((resolve) => setTimeout(() => resolve("silent"), Math.min(300, this.timeoutMs))),
    ]);
    assert.match(settled, /^(refused|silent)$/, why);
    assert.equal(this.provider.requests.length, requests, why);
  }

  async clear(): Promise<void> {
    const attempts: Promise<unknown>[] = [
      // Called in a function of its own, since a wrong one may also throw at once.
      ...this.#clients.map(async (client) => client.close()),
      ...this.#listening.map(async (listening) => listening.stop(AbortSignal.abort())),
    ];
    // What hangs here was a check of its own; it must not keep the others from their turn.
    await Promise.allSettled(attempts.map((attempt) => this.soon(attempt, "clearing up")));
    try {
      await this.agent.close();
    } finally {
      // Before the fixture's own end, which may wait for what a wrong transport left open.
      await rm(this.#folder, { recursive: true, force: true });
      await this.fixture.clean();
    }
  }
}

export function text(content: string): ModelChunk {
  return { type: "text", block: "0", text: content };
}
