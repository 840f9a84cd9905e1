import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { GantryClient } from "gantry/client";
import { NO_BROWSER, shareBrowser } from "../../../helpers/console.js";
import { startModelServer, createServerConfig } from "../../../helpers/server-runs.js";
import { startServer } from "../../../helpers/server.js";
import { TcpProxy } from "../../../helpers/tcp-proxy.js";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";
import { WAIT_LIMIT_MS } from "../../../helpers/wait.js";

/** Bundles the client into one file, as a page loads it. */
async function bundleClient(minify: boolean): Promise<string> {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL("../../../../adapters/koa-http-api/client/index.ts", import.meta.url))],
    bundle: true,
    format: "esm",
    platform: "neutral",
    target: "es2022",
    minify,
    write: false,
    metafile: true,
  });
  // The bundle contains only the client's own modules, no server modules and no packages.
  for (const file of Object.keys(metafile.inputs)) assert.match(file, /adapters\/koa-http-api\/client\/[\w-]+\.ts$/);
  return outputFiles[0]?.text ?? "";
}

it("the client bundle is smaller than 8 KiB, minified and gzipped, and imports nothing", async () => {
  const text = await bundleClient(true);
  assert.doesNotMatch(text, /\bimport\b|\brequire\b/);
  const { length } = gzipSync(text);
  assert.ok(length > 1000 && length < 8 * 1024, `${length} bytes`);
});

describe("the client in a browser", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  /** Opens a page on another local port that contains only the client. */
  async function openPage(hooks: Hooks): Promise<Page> {
    const script = await bundleClient(false);
    const server = createServer(({ url }, response) => {
      const isScript = url === "/client.js";
      response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
      response.end(isScript ? script : `<!doctype html><title>A page</title><script type="module">
        Object.assign(window, await import("/client.js"));
        window.ready = true;
      </script>`); // prettier-ignore
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const context = await (await browser()).newContext();
    context.setDefaultTimeout(WAIT_LIMIT_MS);
    hooks.after(async () => {
      await context.close();
      const closeEvent = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closeEvent;
    });
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await page.waitForFunction("window.ready");
    return page;
  }

  it("runs, streams, renames and cancels with required headers, and maps failures to error classes", async (t) => {
    const models = await startModelServer(t);
    const headers = { Authorization: "Bearer right", "X-Key": "right" };
    const config = createServerConfig(models, { server: { required_headers: headers } });
    const { url } = await startServer(t, { config });
    const page = await openPage(t);
    const runInPage = <T>(body: string): Promise<T> =>
      page.evaluate(`(async () => {
        const url = ${JSON.stringify(url)};
        const client = new GantryClient({ url, headers: ${JSON.stringify(headers)} });
        ${body}
      })()`);
    models.enqueue({ say: [{ text: ["One, ", "two. 🙂"] }] });
    const run = await runInPage<{ output: string; model: string }>(`return client.run({ message: "Count" });`);
    assert.deepEqual([run.output, run.model], ["One, two. 🙂", "lab/m1"]);
    models.enqueue({ say: [{ text: ["Three, ", "four."] }] });
    const streamResult = await runInPage<[string, string, boolean]>(`
      const stream = await client.stream({ message: "On" });
      let text = "";
      for await (const event of stream) if (event.type === "token") text += event.content;
      return [text, stream.model, (await stream.result).done];`);
    assert.deepEqual(streamResult, ["Three, four.", "lab/m1", true]);
    const errors = await runInPage<string[]>(`
      const errorOf = (work) => work.then(() => "none", (error) =>
        [error instanceof ApiError, error.name, error.code, error.status].join(" "));
      const unreachableClient = new GantryClient({ url: "http://127.0.0.1:9" });
      return [
        await errorOf(new GantryClient({ url }).health()),
        await errorOf(client.sessions.get("none")),
        await errorOf(unreachableClient.health()),
        await errorOf(client.sessions.watch("none").next()),
        // Without a url the client uses the origin of the page.
        await errorOf(new GantryClient().health()),
      ];`);
    assert.deepEqual(errors, [
      "true UnauthorizedError unauthorized 401",
      "true NotFoundError session_not_found 404",
      "true DisconnectedError disconnected 0",
      "true NotFoundError session_not_found 404",
      "true ApiError invalid_answer 200",
    ]);
    // PATCH and the idempotency key require a preflight.
    models.enqueue({ say: [{ text: ["a", "b"] }, { gate: "never" }] });
    const sessionId = await runInPage<string>(`
      const stream = await client.stream({ message: "Wait" }, { key: "k1" });
      await client.sessions.update(stream.sessionId, { title: "Renamed" });
      for await (const event of stream) if (event.type === "token") break;
      await client.runs.cancel(stream.runId);
      return stream.sessionId;`);
    const client = new GantryClient({ url, headers });
    assert.equal((await client.sessions.get(sessionId)).title, "Renamed");
    assert.equal((await client.runs.list({ sessionId }))[0]?.state, "cancelled");
  });

  it("keeps a SessionMirror equal to the stored messages through lost connections, kill -9 and a restart", async (t) => {
    const models = await startModelServer(t);
    const [home, projectDir] = [await tempDir(t), await tempDir(t)];
    const startGantry = (port: string) =>
      startServer(t, {
        config: createServerConfig(models),
        args: ["serve", "--port", port],
        home: home.path,
        projectDir: projectDir.path,
      });
    const firstServer = await startGantry("0");
    const proxy = await TcpProxy.startBefore(t, firstServer.url);
    const client = new GantryClient({ url: firstServer.url });
    const pieces = Array.from({ length: 60 }, (_, n) => `w${n} 🙂 `);
    models.enqueue({ say: [{ text: pieces }, { gate: "half" }, { text: pieces }], pace: 5 });
    const { session_id: id } = await client.start({ message: "Talk" });
    const page = await openPage(t);
    await page.evaluate(`(() => {
      const client = new GantryClient({ url: ${JSON.stringify(proxy.toProxyUrl(firstServer.url))} });
      window.page = new SessionMirror();
      window.states = [];
      (async () => {
        const onConnection = (state) => states.push(state);
        for await (const event of client.sessions.watch(${JSON.stringify(id)}, { last: 50, onConnection })) window.page.apply(event);
        states.push("over");
      })();
    })()`);
    const waitForCondition = (condition: string) => page.waitForFunction(condition, undefined, { polling: 20 });
    for (const [n, word] of ["w5 ", "w20 ", "w40 "].entries()) {
      await waitForCondition(`window.page.messages[1]?.content.includes(${JSON.stringify(word)})`);
      // After a reconnection the text may arrive at once. Waits, so that the cut hits an open connection.
      await waitForCondition(`states.at(-1) === "open"`);
      proxy.cutAll();
      await waitForCondition(`states.filter((state) => state === "lost").length > ${n}`);
    }
    await waitForCondition(`window.page.messages[1]?.content.includes("w59 ")`);
    await waitForCondition(`states.at(-1) === "open"`);
    await firstServer.stop("SIGKILL");
    await waitForCondition(`states.at(-1) === "lost" || states.at(-1) === "connecting"`);
    const secondServer = await startGantry(new URL(firstServer.url).port);
    await waitForCondition(`window.page.state.run?.state === "interrupted"`);
    models.enqueue({ say: [{ text: ["Here ", "again."] }] });
    const secondClient = new GantryClient({ url: secondServer.url });
    await secondClient.run({ message: "Go on", session_id: id });
    const messages = await secondClient.sessions.messages(id);
    await waitForCondition(`JSON.stringify(window.page.messages) === ${JSON.stringify(JSON.stringify(messages))}`);
    assert.ok((await page.evaluate<number>(`states.filter((state) => state === "lost").length`)) >= 4);
    await secondClient.sessions.delete(id);
    await waitForCondition(`states.at(-1) === "over" && window.page.deleted`);
  });
});
