import assert from "node:assert/strict";
import { it } from "node:test";
import { AcpPeer, type Json } from "../../helpers/acp-peer.js";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import { textStep, startFakeModelServer, type FakeStep } from "../../helpers/fake-model-server.js";
import { startStreamedRun } from "../../helpers/server-runs.js";
import { spawnGantry, startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const TEXT_PIECES = Array.from({ length: 5_000 }, (_, n) => `piece ${n}; `);
const TEXT = TEXT_PIECES.join("");

/** Creates an answer whose events are sent at once, as by a gateway that buffers. */
function createBurst(): FakeStep {
  const createChunk = (delta: object, finish: string | null = null): string =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m1", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const body = [
    createChunk({ role: "assistant", content: "" }),
    ...TEXT_PIECES.map((content) => createChunk({ content })),
    createChunk({}, "stop"),
    "data: [DONE]\n\n",
  ].join("");
  return { headers: { "content-type": "text/event-stream" }, body };
}

async function startModelAndCreateConfig(t: Hooks) {
  const model = await startFakeModelServer({ toolFreeAnswer: textStep("A title"), fallback: createBurst() });
  t.after(() => model.close());
  const models = [{ id: "m1", name: "M 1", context_window: 1_000_000 }];
  const config = {
    providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models }],
    server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
    // Other tests cover the store. This test also runs without the native addon.
    session: { driver: "json" },
  };
  return config;
}

it("5,000 text deltas in one burst arrive complete over HTTP, ACP over HTTP and ACP over WebSocket", async (t) => {
  const server = await startServer(t, { config: await startModelAndCreateConfig(t) });
  const acpUrl = `${server.url}/acp`;
  const [apiText, httpText, socketText] = await Promise.all([
    (async () => {
      const apiStream = await startStreamedRun(server, { message: "go" });
      await apiStream.ended;
      return apiStream.pieces.map(({ text }) => text).join("");
    })(),
    (async () => {
      const peer = new HttpPeer(acpUrl);
      await peer.open();
      const connectionStream = await peer.openStream();
      const session = await peer.newSession(server.projectDir);
      await peer.prompt(session, "go");
      connectionStream.close();
      return peer.getText(session);
    })(),
    (async () => {
      const peer = new SocketPeer(acpUrl);
      await peer.waitUntilOpen();
      await peer.initialize();
      const session = await peer.newSession(server.projectDir);
      await peer.prompt(session, "go");
      peer.socket.close();
      return peer.getText(session);
    })(),
  ]);
  assert.equal(apiText, TEXT, "text over HTTP");
  assert.equal(httpText, TEXT, "text over ACP over HTTP");
  assert.equal(socketText, TEXT, "text over ACP over a WebSocket");
});

it("5,000 text deltas in one burst arrive complete over ACP on standard input and output", async (t) => {
  const gantry = await spawnGantry(t, {
    config: await startModelAndCreateConfig(t),
    args: ["serve", "--acp", "--stdio"],
  });
  const peer = new AcpPeer((text) => void gantry.child.stdin.write(`${text}\n`));
  let incompleteLine = "";
  gantry.child.stdout.on("data", (text: string) => {
    const lines = (incompleteLine + text).split("\n");
    incompleteLine = lines.pop() ?? "";
    for (const line of lines) peer.receiveMessage(JSON.parse(line) as Json);
  });
  await peer.initialize();
  const session = await peer.newSession(gantry.projectDir);
  await peer.prompt(session, "go");
  assert.equal(peer.getText(session), TEXT);
});
