import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient, NotFoundError, SessionPage } from "gantry/client";
import { startApi } from "../api.js";

describe("the client", () => {
  it("runs, streams, begins and watches", async (t) => {
    const api = await startApi(t, { steps: ["One, two.", "Three."] });
    const client = new GantryClient({ url: api.url });
    const first = await client.run({ message: "Count" });
    assert.equal(first.output, "One, two.");
    const stream = await client.stream({ message: "On", session_id: first.sessionId });
    let said = "";
    for await (const event of stream) if (event.type === "token") said += event.content ?? "";
    assert.equal(said, "Three.");
    assert.equal((await stream.result).done, true);

    const page = new SessionPage();
    const messages = await client.sessions.messages(first.sessionId);
    for await (const event of client.sessions.watch(first.sessionId)) {
      page.apply(event);
      if (page.messages.length === 4 && page.messages.every(({ finished }) => finished === undefined)) break;
    }
    assert.deepEqual(page.messages, messages);
    await assert.rejects(client.sessions.get("none"), NotFoundError);
    await client.sessions.delete(first.sessionId);
  });
});
