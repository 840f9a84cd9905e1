import assert from "node:assert/strict";
import { it } from "node:test";
import { HttpPeer, SocketPeer, type Sse } from "../../helpers/acp-http.js";
import { call, type FakeRequest } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, processes, stream, uniqueSeconds, until } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

const STREAMS = 100;
const SOCKETS = 50;

it("SIGTERM stops a server with 100 streams, 50 WebSockets, 5 runs and a stubborn child: exit 0, no process left", async (t) => {
  const seconds = uniqueSeconds();
  const stubborn = `trap '' TERM HUP; echo on > running; (trap '' TERM HUP; exec sleep ${seconds}) & while true; do sleep 0.1; done`;
  const isTool = ({ body }: FakeRequest) => JSON.stringify(body).includes("run-the-tool");
  const models = await lab(t, {
    fallback: (request) =>
      isTool(request) ? call("bash", { command: stubborn, timeout: 600 }) : { say: [{ text: "Hm" }, { stall: true }] },
  });
  const project = await tempDir(t);
  const server = await startServer(t, {
    config: labConfig(models, { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } }),
    projectDir: project.path,
  });
  const acp = `${server.url}/acp`;

  const peers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const peer = new HttpPeer(acp);
      await peer.open();
      return peer;
    }),
  );
  const sse: Sse[] = (
    await Promise.all(
      peers.map(async (peer) => {
        const opened: Sse[] = [];
        for (let n = 0; n < STREAMS / peers.length; n++)
          opened.push(await peer.stream(n === 0 ? undefined : `other-${n}`));
        return opened;
      }),
    )
  ).flat();
  const sockets = await Promise.all(
    Array.from({ length: SOCKETS }, async () => {
      const peer = new SocketPeer(acp);
      await peer.opened();
      await peer.initialize();
      return peer;
    }),
  );

  const tool = await stream(server, { message: "run-the-tool" });
  const streamed = await stream(server, { message: "talk" });
  const plain = ask(server, { message: "talk" });
  const [socket, peer] = [sockets[0]!, peers[0]!];
  const prompts = [
    socket.prompt(await socket.newSession(project.path), "talk"),
    peer.prompt(await peer.newSession(project.path), "talk"),
  ];
  await streamed.text(1);
  await until(async () => (await project.read("running").catch(() => "")) !== "");
  await until(() => models.requests.filter(({ tools }) => tools.length > 0).length >= 5);

  assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });

  await Promise.all([tool.ended, streamed.ended]);
  for (const { last } of [tool, streamed]) {
    assert.deepEqual(last, { event: "error", data: { error: "server shutting down", code: "shutting_down" } });
  }
  const { status, error } = await plain;
  assert.deepEqual([status, error], [503, "server shutting down"]);
  for (const result of await Promise.all(prompts)) assert.deepEqual(result, { stopReason: "cancelled" });
  assert.deepEqual(new Set(await Promise.all(sockets.map(({ closed }) => closed))), new Set([1001]));
  await Promise.all(sse.map(({ ended }) => ended));
  for (const client of [...peers, ...sockets]) client.assertClean();
  // The time for each part is fixed. The check above shows whether a part that is late on a busy machine was ended.
  const errors = server.stderr.split("\n").filter((line) => line.includes(" error "));
  assert.deepEqual(
    errors.filter((line) => !line.includes("did not stop in time")),
    [],
  );
  await until(async () => (await processes(`sleep ${seconds}`)) === 0);
});
