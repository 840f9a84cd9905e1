import assert from "node:assert/strict";
import { it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import { textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { startServer } from "../../helpers/server.js";

it("SIGTERM with open streams, sockets and prompts cancels the prompts, closes sockets with code 1001 and exits with 0", async (t) => {
  const model = await startFakeModelServer({
    toolFreeAnswer: textStep("A title"),
    fallback: { say: [{ text: "half" }, { stall: true }] },
  });
  t.after(() => model.close());
  const models = [{ id: "m1", name: "M 1", context_window: 8000 }];
  const config = { providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models }] };
  const server = await startServer(t, { config, args: ["serve", "--acp", "--port", "0"] });
  const [acpAddress] = server.addresses;
  assert.equal(acpAddress?.label, "acp");
  assert.match(acpAddress?.url ?? "", /^http:\/\/127\.0\.0\.1:\d+\/acp$/);
  const url = acpAddress!.url;
  const isUpdate = (message: { method?: string }) => message.method === "session/update";

  const httpPeer = new HttpPeer(url);
  await httpPeer.open();
  const streams = [await httpPeer.openStream()];
  const session = await httpPeer.newSession(server.projectDir);
  // One stream belongs to the session, the others to unknown session ids.
  for (let i = 0; i < 20; i += 1) streams.push(await httpPeer.openStream(i === 0 ? session : `other-${i}`));
  const sockets = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const peer = new SocketPeer(url);
      await peer.waitUntilOpen();
      await peer.initialize();
      return peer;
    }),
  );
  const pendingResults = [
    httpPeer.prompt(session, "x"),
    ...(await Promise.all(
      sockets.slice(0, 3).map(async (peer) => {
        const ownSession = await peer.newSession(server.projectDir);
        // The object keeps `Promise.all` from waiting for the result of the prompt.
        return { result: peer.prompt(ownSession, "x") };
      }),
    ).then((pendingPrompts) => pendingPrompts.map(({ result }) => result))),
  ];
  await Promise.all([httpPeer, ...sockets.slice(0, 3)].map((peer) => peer.waitForMessage(isUpdate)));
  server.child.kill("SIGTERM");
  for (const result of await Promise.all(pendingResults)) assert.deepEqual(result, { stopReason: "cancelled" });
  assert.deepEqual(new Set(await Promise.all(sockets.map((peer) => peer.closed))), new Set([1001]));
  await Promise.all(streams.map((stream) => stream.ended));
  assert.deepEqual(await server.exited, { code: 0, signal: null });
  for (const peer of [httpPeer, ...sockets]) peer.assertNoValidationErrors();
});
