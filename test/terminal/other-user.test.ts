import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { foreignServer, noOtherUser } from "../helpers/other-user.js";
import { until } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";
import { startServer } from "../helpers/server.js";

const LOCKED = { server: { port: 0, required_headers: { "X-Key": "s3cret-of-the-test" } } };

describe("gantry chat --url", { skip: NO_TMUX || noOtherUser }, () => {
  it("sends nothing to a server process of another user, unless --any-user is set", async (t) => {
    const { url, receivedRequests } = await foreignServer(t);
    for (const args of [["--continue"], []]) {
      const pane = await openPane(t, { config: LOCKED, args: ["chat", "--url", url, ...args] });
      const { code, screen } = await pane.ended();
      assert.equal(code, 1);
      assert.match(screen.replace(/\n/g, ""), /belongs to another user \(uid 65534\): nothing was sent.*--any-user/);
    }
    assert.equal(await receivedRequests(), "");
    const pane = await openPane(t, { config: LOCKED, args: ["chat", "--url", url, "--any-user", "--continue"] });
    await until(async () => (await receivedRequests()) !== "");
    await pane.keys("C-d");
    await pane.ended();
    assert.match(await receivedRequests(), /^GET \/api\/sessions\S* s3cret-of-the-test$/m);
  });

  it("sends nothing after a process of another user has taken over the server's port", async (t) => {
    const server = await startServer(t, { config: LOCKED });
    const pane = await openPane(t, { home: server.home, args: ["chat", "--url", server.url] });
    await pane.until(/Type a prompt/);
    await pane.type("Which files are here?");
    await pane.keys("Enter");
    await pane.until(/guide/);
    await server.stop();
    const { receivedRequests } = await foreignServer(t, Number(new URL(server.url).port));
    const errorScreen = await pane.until(/belongs to another user/);
    assert.match(errorScreen.replace(/\n/g, ""), /uid 65534/);
    assert.equal(await receivedRequests(), "");
    await pane.keys("C-c", "C-c");
    await pane.ended();
  });
});
