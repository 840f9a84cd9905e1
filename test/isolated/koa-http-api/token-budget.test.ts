import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { getEventListeners } from "node:events";
import { ServerResponse } from "node:http";
import { it, type TestContext } from "node:test";
import { promiseHooks } from "node:v8";
import type { ModelChunk, ModelRequest } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { finish, say, ScriptedProvider } from "gantry/testing";
import { openConnection } from "../../helpers/raw-http.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Cost of a streamed token, from the provider to the socket, as counts and not as times. Each bound is slightly above
// the count when the test was written. A change that needs more for each token raises the bound and gives the reason.
// Timers never fire, and the event loop's clock advances with each reading, so that the counts are the same on every
// machine.

/** Sends `tokenCount` tokens. `onNextToken` calls its argument to send the next token. Creates one promise a token. */
class TokenProvider extends ScriptedProvider {
  sentTokenCount = 0;
  signal: AbortSignal | undefined;
  readonly #tokenCount: number;
  readonly #onNextToken: (go: () => void) => void;

  constructor(tokenCount: number, onNextToken: (go: () => void) => void) {
    super();
    this.#tokenCount = tokenCount;
    this.#onNextToken = onNextToken;
  }

  override stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
    if (request.temperature !== undefined || this.remaining > 0) return super.stream(request, signal);
    this.signal = signal;
    const next = () => new Promise<IteratorResult<ModelChunk>>((go) => this.#onNextToken(() => go(this.#chunk())));
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  #chunk(): IteratorResult<ModelChunk, undefined> {
    this.sentTokenCount += 1;
    if (this.sentTokenCount > this.#tokenCount + 1) return { value: undefined, done: true };
    return {
      value: this.sentTokenCount > this.#tokenCount ? finish("stop") : { type: "text", block: "0", text: "word " },
      done: false,
    };
  }
}

/** Streams a run to a client and returns the text. An earlier run loads the modules and creates the session's title. */
async function streamRun(t: TestContext, provider: TokenProvider): Promise<string> {
  // Uses the default store: the memory store keeps documents, and its writes need eight more promises for a token.
  const driver = new SqliteDriver({ path: (await tempDir(t)).at("sessions.db") });
  const { agent, url, postRun } = await startApi(t, { agent: { driver, providers: [provider.push(say("warm"))] } });
  const titleStored = new Promise((resolve) => agent.on("session.updated", resolve));
  const { headers } = await postRun({ message: "hi", stream: true });
  await titleStored;
  let uptimeSeconds = 0;
  const uptimeMock = t.mock.method(process, "uptime", () => (uptimeSeconds += 50e-6));
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const body = JSON.stringify({ message: "hi", stream: true, session_id: headers["x-session-id"] });
  const client = (await openConnection(url)).write(
    `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await client.waitForText(/event: done/);
  t.mock.timers.reset();
  uptimeMock.mock.restore();
  client.destroy();
  return [...client.receivedText.matchAll(/"content":"([^"]*)"/g)].map(([, text]) => text).join("");
}

it("a token that is streamed alone costs fewer than 10 promises, one write and no listener", async (t) => {
  const [WINDOW_TOKENS, WINDOW_COUNT] = [100, 4];
  let promiseCount = 0;
  const promiseCounts: number[] = [];
  const listenerCounts: number[] = [];
  // tsx compiles in this process and then cleans its cache. This first run is not counted.
  await streamRun(t, new TokenProvider(1, (go) => go()));
  const countedScope = new AsyncLocalStorage<boolean>();
  const stopHook = promiseHooks.onInit(() => (promiseCount += countedScope.getStore() ? 1 : 0)) as () => void;
  t.after(stopHook);
  const writeMock = t.mock.method(ServerResponse.prototype, "write");
  const tokenCount = WINDOW_TOKENS * WINDOW_COUNT;
  const provider = new TokenProvider(tokenCount, (go) => {
    if (provider.sentTokenCount % WINDOW_TOKENS === 0) {
      promiseCounts.push(promiseCount);
      listenerCounts.push(getEventListeners(provider.signal!, "abort").length);
      promiseCount = 0;
    }
    // Two turns of the event loop for each token, so that no two tokens are joined.
    setImmediate(() => setImmediate(go));
  });
  assert.equal(await countedScope.run(true, () => streamRun(t, provider)), "word ".repeat(tokenCount));
  // The first count covers the start of the run, before the first token.
  const maxPromisesPerToken = Math.max(...promiseCounts.slice(1)) / WINDOW_TOKENS;
  assert.ok(maxPromisesPerToken < 10, `${maxPromisesPerToken} promises for a token`);
  const writeCount = writeMock.mock.callCount();
  assert.ok(writeCount <= tokenCount + 10, `${writeCount} writes for ${tokenCount} tokens`);
  assert.deepEqual(
    new Set(listenerCounts),
    new Set([1]),
    "the signal has one listener, whatever the length of the answer",
  );
});

it("10,000 tokens that arrive together cost fewer than 500 writes", async (t) => {
  const responseWriteMock = t.mock.method(ServerResponse.prototype, "write");
  const provider = new TokenProvider(10_000, (go) => go());
  assert.equal(await streamRun(t, provider), "word ".repeat(10_000));
  const responseWriteCount = responseWriteMock.mock.callCount();
  assert.ok(responseWriteCount < 500, `${responseWriteCount} writes for 10,000 tokens that arrived together`);
});
