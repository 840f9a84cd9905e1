import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "../../agent/agent.js";
import { MemoryDriver } from "../../memory-driver/memory-driver.js";
import type { ModelChunk } from "../../ports/model-provider.js";
import type { Listening, Transport } from "../../plugin/transport.js";
import { openResources, withTimeout, until, type CheckRules } from "../check.js";
import { ScriptedProvider } from "../scripted-provider.js";
import type { TransportClient, TransportFixture } from "./fixture.js";

export type TransportRules = CheckRules<[stage: TransportHarness]>;

/** The setup of one check: an agent with a scripted model, a transport and clients. */
export class TransportHarness {
  readonly fixture: TransportFixture;
  readonly transport: Transport;
  readonly provider = new ScriptedProvider();
  readonly agent: Agent;
  /** Outcomes of the runs, in order. */
  readonly ended: ("finished" | "failed")[] = [];
  /** Open resources before the transport was created. */
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
    const before = openResources();
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
    return withTimeout(promise, what, this.timeoutMs);
  }

  until(test: () => boolean, what: string): Promise<void> {
    return until(test, what, this.timeoutMs);
  }

  /** Starts a prompt and waits until its answer has begun with `first`. The script determines the remaining answer. */
  async beginPrompt(
    client: TransportClient,
    first = "begun ",
  ): Promise<{ answer: Promise<{ text: string; sessionId: string }> }> {
    let text = "";
    const answer = client.prompt("begin", { onText: (piece) => (text += piece) });
    // The check may not await it: avoid an unhandled rejection.
    answer.catch(() => undefined);
    await this.until(() => text.startsWith(first), "the first piece of an answer");
    return { answer };
  }

  /** Asserts that a late prompt is not served. */
  async expectNotServed(connect: () => Promise<TransportClient>, why: string): Promise<void> {
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
      // In an async function, because a faulty implementation can throw synchronously.
      ...this.#clients.map(async (client) => client.close()),
      ...this.#listening.map(async (listening) => listening.stop(AbortSignal.abort())),
    ];
    // Another check tests a hanging stop. Here it must not block the next check.
    await Promise.allSettled(attempts.map((attempt) => this.soon(attempt, "clearing up")));
    try {
      await this.agent.close();
    } finally {
      // Before the fixture's cleanup, which may wait for resources that a faulty transport left open.
      await rm(this.#folder, { recursive: true, force: true });
      await this.fixture.clean();
    }
  }
}

export function text(content: string): ModelChunk {
  return { type: "text", block: "0", text: content };
}
