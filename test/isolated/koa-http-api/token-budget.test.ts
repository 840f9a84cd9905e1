import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { getEventListeners } from "node:events";
import { ServerResponse } from "node:http";
import { it, type TestContext } from "node:test";
import { promiseHooks } from "node:v8";
import type { ModelChunk, ModelRequest } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { finish, say, ScriptedProvider } from "gantry/testing";
import { wire } from "../../helpers/http.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp.js";

// Cost of a streamed token, from the provider to the socket, as counts and not as times. Each bound is slightly above
// the count when the test was written. A change that needs more for each token raises the bound and gives the reason.
// Timers never fire, and the event loop's clock advances with each reading, so that the counts are the same on every
// machine.

/** A provider that sends a number of tokens, each when `ready` calls back. It creates one promise for each. */
class Talker extends ScriptedProvider {
  sentTokens = 0;
  signal: AbortSignal | undefined;
  readonly #tokens: number;
  readonly #ready: (go: () => void) => void;

  constructor(tokens: number, ready: (go: () => void) => void) {
    super();
    this.#tokens = tokens;
    this.#ready = ready;
  }

  override stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    if (request.temperature !== undefined || this.remaining > 0) return super.stream(request, signal);
    this.signal = signal;
    const next = () => new Promise<IteratorResult<ModelChunk>>((go) => this.#ready(() => go(this.#chunk())));
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  #chunk(): IteratorResult<ModelChunk, undefined> {
    this.sentTokens += 1;
    if (this.sentTokens > this.#tokens + 1) return { value: undefined, done: true };
    return {
      value: this.sentTokens > this.#tokens ? finish("stop") : { type: "text", block: "0", text: "word " },
      done: false,
    };
  }
}

/** Text of one run that is streamed to a client. A run before it loads the modules and creates the session's title. */
async function streamed(t: TestContext, provider: Talker): Promise<string> {
  // Uses the default store: the memory store keeps documents, and its writes need eight more promises for a token.
  const driver = new SqliteDriver({ path: (await tempDir(t)).at("sessions.db") });
  const { agent, url, run } = await startApi(t, { agent: { driver, providers: [provider.push(say("warm"))] } });
  const titleStored = new Promise((resolve) => agent.on("session.updated", resolve));
  const { headers } = await run({ message: "hi", stream: true });
  await titleStored;
  let seconds = 0;
  const clock = t.mock.method(process, "uptime", () => (seconds += 50e-6));
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const body = JSON.stringify({ message: "hi", stream: true, session_id: headers["x-session-id"] });
  const client = (await wire(url)).write(
    `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await client.until(/event: done/);
  t.mock.timers.reset();
  clock.mock.restore();
  client.destroy();
  return [...client.received.matchAll(/"content":"([^"]*)"/g)].map(([, text]) => text).join("");
}

it("a token that is streamed alone costs fewer than 10 promises, one write and no listener", async (t) => {
  const [WINDOW, WINDOWS] = [100, 4];
  let promises = 0;
  const promiseCounts: number[] = [];
  const listenerCounts: number[] = [];
  // tsx compiles in this process and then cleans its cache. This first run is not counted.
  await streamed(t, new Talker(1, (go) => go()));
  const countedScope = new AsyncLocalStorage<boolean>();
  const stop = promiseHooks.onInit(() => (promises += countedScope.getStore() ? 1 : 0)) as () => void;
  t.after(stop);
  const write = t.mock.method(ServerResponse.prototype, "write");
  const tokens = WINDOW * WINDOWS;
  const provider = new Talker(tokens, (go) => {
    if (provider.sentTokens % WINDOW === 0) {
      promiseCounts.push(promises);
      listenerCounts.push(getEventListeners(provider.signal!, "abort").length);
      promises = 0;
    }
    // Two turns of the event loop for each token, so that no two tokens are joined.
    setImmediate(() => setImmediate(go));
  });
  assert.equal(await countedScope.run(true, () => streamed(t, provider)), "word ".repeat(tokens));
  // The first count covers the start of the run, before the first token.
  const each = Math.max(...promiseCounts.slice(1)) / WINDOW;
  assert.ok(each < 10, `${each} promises for a token`);
  const writes = write.mock.callCount();
  assert.ok(writes <= tokens + 10, `${writes} writes for ${tokens} tokens`);
  assert.deepEqual(new Set(listenerCounts), new Set([1]), "listeners on the signal of an answer, whatever its length");
});

it("10,000 tokens that arrive together cost fewer than 500 writes", async (t) => {
  const write = t.mock.method(ServerResponse.prototype, "write");
  const provider = new Talker(10_000, (go) => go());
  assert.equal(await streamed(t, provider), "word ".repeat(10_000));
  const writes = write.mock.callCount();
  assert.ok(writes < 500, `${writes} writes for 10,000 tokens that arrived together`);
});
