import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, it } from "node:test";
import { ApiError, GantryClient, type ApiMessageMatch } from "gantry/client";
import { MemoryDriver } from "gantry";
import type { MessageSearchPage, MessageSearchQuery } from "gantry/plugin";
import { startApi } from "../../helpers/http-api.js";

/** A driver whose search ends only when its signal aborts. */
class EndlessSearchDriver extends MemoryDriver {
  readonly steps = new EventEmitter();

  searchMessages({ signal }: MessageSearchQuery): Promise<MessageSearchPage> {
    return new Promise((_, reject) => {
      signal?.addEventListener("abort", () => {
        this.steps.emit("stopped");
        reject(signal.reason as Error);
      });
      this.steps.emit("started");
    });
  }
}

describe("GET /api/search", () => {
  it("finds messages of all sessions, in pages", async (t) => {
    const api = await startApi(t, { steps: ["The parser has a test.", "It failed.", "Nothing here."] });
    const client = new GantryClient({ url: api.url });
    const first = await client.run({ message: "Test the parser" });
    const second = await client.run({ message: "Why does the parser fail?" });
    await client.run({ message: "Hello" });

    const { matches, next, incomplete } = await client.sessions.search("PARSER");
    assert.deepEqual(
      matches.map(({ session_id, role, snippet }: ApiMessageMatch) => [session_id, role, snippet]),
      [
        [second.sessionId, "user", "Why does the parser fail?"],
        [first.sessionId, "assistant", "The parser has a test."],
        [first.sessionId, "user", "Test the parser"],
      ],
    );
    assert.deepEqual(matches[0]?.ranges, [{ start: 13, end: 19 }]);
    assert.deepEqual([next, incomplete], [undefined, false]);
    const [message] = await client.sessions.messages(second.sessionId);
    assert.deepEqual([matches[0]?.message_id, matches[0]?.seq], [message?.id, message?.seq]);

    const firstPage = await client.sessions.search("parser", { limit: 2 });
    const secondPage = await client.sessions.search("parser", { limit: 2, before: firstPage.next ?? "" });
    assert.deepEqual([...firstPage.matches, ...secondPage.matches], matches);

    await client.sessions.update(first.sessionId, { archived: true });
    assert.equal((await client.sessions.search("parser")).matches.length, 1);
    assert.equal((await client.sessions.search("parser", { archived: "include" })).matches.length, 3);
    assert.deepEqual((await client.sessions.search("parser", { projectDir: "/nowhere" })).matches, []);
    assert.deepEqual((await client.sessions.search('"parser" AND (')).matches, []);
    assert.deepEqual((await client.sessions.search("***")).matches, []);
  });

  it("answers 400 with the name of an invalid parameter", async (t) => {
    const api = await startApi(t, { steps: [] });
    for (const [query, parameter] of [
      ["", "query"],
      ["query=", "query"],
      ["query=a&query=b", "query"],
      [`query=${"a".repeat(1001)}`, "query"],
      ["query=a&limit=0", "limit"],
      ["query=a&before=x", "before"],
      ["query=a&archived=yes", "archived"],
    ]) {
      const response = await api.send(`/api/search?${query}`);
      assert.equal(response.status, 400, query);
      const expectedBody = { error: `invalid query parameter: ${parameter}`, code: "invalid_query" };
      assert.deepEqual(response.json(), expectedBody, query);
    }
  });

  it("stops the search when the client disconnects", async (t) => {
    const driver = new EndlessSearchDriver();
    const api = await startApi(t, { steps: [], agent: { driver } });
    const client = new GantryClient({ url: api.url });
    const controller = new AbortController();
    const started = once(driver.steps, "started");
    const stopped = once(driver.steps, "stopped");
    const search = client.sessions.search("word", {}, { signal: controller.signal });
    await started;
    controller.abort(new Error("closed"));
    await assert.rejects(search, (error) => !(error instanceof ApiError));
    await stopped;
  });
});
