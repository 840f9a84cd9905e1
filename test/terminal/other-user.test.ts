import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startForeignServer, NO_OTHER_USER } from "../helpers/other-user.js";
import { waitUntil } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";
import { startServer } from "../helpers/server.js";

const REQUIRED_HEADERS_CONFIG = { server: { port: 0, required_headers: { "X-Key": "s3cret-of-the-test" } } };

describe("gantry chat --url", { skip: NO_TMUX || NO_OTHER_USER }, () => {
  it("sends nothing to a server process of another user, unless --any-user is set", async (t) => {
    const { url, readRequests } = await startForeignServer(t);
    for (const args of [["--continue"], []]) {
      const pane = await openPane(t, { config: REQUIRED_HEADERS_CONFIG, args: ["chat", "--url", url, ...args] });
      const { code, screen } = await pane.waitForExit();
      assert.equal(code, 1);
      assert.match(screen.replace(/\n/g, ""), /belongs to another user \(uid 65534\): nothing was sent.*--any-user/);
    }
    assert.equal(await readRequests(), "");
    const pane = await openPane(t, {
      config: REQUIRED_HEADERS_CONFIG,
      args: ["chat", "--url", url, "--any-user", "--continue"],
    });
    await waitUntil(async () => (await readRequests()) !== "");
    await pane.sendKeys("C-d");
    await pane.waitForExit();
    assert.match(await readRequests(), /^GET \/api\/sessions\S* s3cret-of-the-test$/m);
  });

  it("sends nothing after a process of another user has taken over the server's port", async (t) => {
    const server = await startServer(t, { config: REQUIRED_HEADERS_CONFIG });
    const pane = await openPane(t, { home: server.home, args: ["chat", "--url", server.url] });
    await pane.waitForScreen(/Type a prompt/);
    await pane.type("Which files are here?");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/guide/);
    await server.stop();
    const { readRequests } = await startForeignServer(t, Number(new URL(server.url).port));
    const errorScreen = await pane.waitForScreen(/belongs to another user/);
    assert.match(errorScreen.replace(/\n/g, ""), /uid 65534/);
    assert.equal(await readRequests(), "");
    await pane.sendKeys("C-c", "C-c");
    await pane.waitForExit();
  });
});
