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
import { noBrowser, sharedBrowser } from "../../../helpers/console.js";
import { lab, labConfig } from "../../../helpers/lab.js";
import { startServer } from "../../../helpers/server.js";
import { TcpProxy } from "../../../helpers/tcp-proxy.js";
import { tempDir, type Hooks } from "../../../helpers/temp.js";
import { WAIT_LIMIT_MS } from "../../../helpers/wait.js";

/** The client bundled into one file, as a page loads it. */
async function bundled(minify: boolean): Promise<string> {
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
  // The bundle contains only the client's own modules: none of the server, none of a package.
  for (const file of Object.keys(metafile.inputs)) assert.match(file, /adapters\/koa-http-api\/client\/[\w-]+\.ts$/);
  return outputFiles[0]?.text ?? "";
}

it("the client bundle is smaller than 6 KiB, minified and gzipped, and imports nothing", async () => {
  const text = await bundled(true);
  assert.doesNotMatch(text, /\bimport\b|\brequire\b/);
  const { length } = gzipSync(text);
  assert.ok(length > 1000 && length < 6 * 1024, `${length} bytes`);
});

describe("the client in a browser", { skip: noBrowser }, () => {
  const browser = sharedBrowser({ after });

  /** Opens a page on another local port that contains only the client. */
  async function openPage(hooks: Hooks): Promise<Page> {
    const script = await bundled(false);
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
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    });
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await page.waitForFunction("window.ready");
    return page;
  }

  it("runs, streams, renames and cancels with required headers, and maps failures to error classes", async (t) => {
    const models = await lab(t);
    const headers = { Authorization: "Bearer right", "X-Key": "right" };
    const config = labConfig(models, { server: { required_headers: headers } });
    const { url } = await startServer(t, { config });
    const page = await openPage(t);
    const inPage = <T>(body: string): Promise<T> =>
      page.evaluate(`(async () => {
        const url = ${JSON.stringify(url)};
        const client = new GantryClient({ url, headers: ${JSON.stringify(headers)} });
        ${body}
      })()`);
    models.enqueue({ say: [{ text: ["One, ", "two. 🙂"] }] });
    const run = await inPage<{ output: string; model: string }>(`return client.run({ message: "Count" });`);
    assert.deepEqual([run.output, run.model], ["One, two. 🙂", "lab/m1"]);
    models.enqueue({ say: [{ text: ["Three, ", "four."] }] });
    const streamed = await inPage<[string, string, boolean]>(`
      const stream = await client.stream({ message: "On" });
      let text = "";
      for await (const event of stream) if (event.type === "token") text += event.content;
      return [text, stream.model, (await stream.result).done];`);
    assert.deepEqual(streamed, ["Three, four.", "lab/m1", true]);
    const errors = await inPage<string[]>(`
      const errorOf = (work) => work.then(() => "none", (error) =>
        [error instanceof ApiError, error.name, error.code, error.status].join(" "));
      const away = new GantryClient({ url: "http://127.0.0.1:9" });
      return [
        await errorOf(new GantryClient({ url }).health()),
        await errorOf(client.sessions.get("none")),
        await errorOf(away.health()),
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
    const sessionId = await inPage<string>(`
      const stream = await client.stream({ message: "Wait" }, { key: "k1" });
      await client.sessions.update(stream.sessionId, { title: "Renamed" });
      for await (const event of stream) if (event.type === "token") break;
      await client.runs.cancel(stream.runId);
      return stream.sessionId;`);
    const client = new GantryClient({ url, headers });
    assert.equal((await client.sessions.get(sessionId)).title, "Renamed");
    assert.equal((await client.runs.list({ sessionId: sessionId }))[0]?.state, "cancelled");
  });

  it("keeps a SessionMirror equal to the stored messages through lost connections, kill -9 and a restart", async (t) => {
    const models = await lab(t);
    const [home, projectDir] = [await tempDir(t), await tempDir(t)];
    const start = (port: string) =>
      startServer(t, {
        config: labConfig(models),
        args: ["serve", "--port", port],
        home: home.path,
        projectDir: projectDir.path,
      });
    const first = await start("0");
    const proxy = await TcpProxy.before(t, first.url);
    const client = new GantryClient({ url: first.url });
    const pieces = Array.from({ length: 60 }, (_, n) => `w${n} 🙂 `);
    models.enqueue({ say: [{ text: pieces }, { gate: "half" }, { text: pieces }], pace: 5 });
    const { session_id: id } = await client.start({ message: "Talk" });
    const page = await openPage(t);
    await page.evaluate(`(() => {
      const client = new GantryClient({ url: ${JSON.stringify(proxy.url(first.url))} });
      window.page = new SessionMirror();
      window.states = [];
      (async () => {
        const onConnection = (state) => states.push(state);
        for await (const event of client.sessions.watch(${JSON.stringify(id)}, { last: 50, onConnection })) window.page.apply(event);
        states.push("over");
      })();
    })()`);
    const shows = (condition: string) => page.waitForFunction(condition, undefined, { polling: 20 });
    for (const [n, word] of ["w5 ", "w20 ", "w40 "].entries()) {
      await shows(`window.page.messages[1]?.content.includes(${JSON.stringify(word)})`);
      // The text may arrive at once after a reconnection. Cut only a connection that is open.
      await shows(`states.at(-1) === "open"`);
      proxy.cutAll();
      await shows(`states.filter((state) => state === "lost").length > ${n}`);
    }
    await shows(`window.page.messages[1]?.content.includes("w59 ")`);
    await shows(`states.at(-1) === "open"`);
    await first.stop("SIGKILL");
    await shows(`states.at(-1) === "lost" || states.at(-1) === "connecting"`);
    const second = await start(new URL(first.url).port);
    await shows(`window.page.state.run?.state === "interrupted"`);
    models.enqueue({ say: [{ text: ["Here ", "again."] }] });
    const again = new GantryClient({ url: second.url });
    await again.run({ message: "Go on", session_id: id });
    const messages = await again.sessions.messages(id);
    await shows(`JSON.stringify(window.page.messages) === ${JSON.stringify(JSON.stringify(messages))}`);
    assert.ok((await page.evaluate<number>(`states.filter((state) => state === "lost").length`)) >= 4);
    await again.sessions.delete(id);
    await shows(`states.at(-1) === "over" && window.page.deleted`);
  });
});
