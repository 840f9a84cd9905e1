import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { it, type TestContext } from "node:test";
import type { RunRecord } from "gantry";
import { option } from "gantry/plugin";
import { WEBHOOK_EVENTS, webhooksOptions } from "../../adapters/webhooks/options.js";
import { Webhooks } from "../../adapters/webhooks/webhooks.js";
import { createRecordingLogger } from "../helpers/mcp-servers.js";
import { ROOT } from "../helpers/source-paths.js";
import { tempDir } from "../helpers/temp-dir.js";
import { waitFor } from "../helpers/wait.js";
import { WEBHOOK_SECRET } from "../helpers/webhook-receiver.js";

const page = readFileSync(path.join(ROOT, "docs/webhooks.md"), "utf8");

/** Starts the receiver of the page. */
async function startPageReceiver(t: TestContext) {
  const [, code = ""] = /```js\n([^]*?)```/.exec(page) ?? [];
  assert.match(code, /listen\(9000, /);
  const source = code.replace(
    'listen(9000, "127.0.0.1", () => console.log("listening"))',
    'listen(0, "127.0.0.1", () => console.log("port", server.address().port))',
  );
  const folder = await tempDir(t, { "receiver.mjs": source });
  const child = spawn(process.execPath, [folder.at("receiver.mjs")], {
    env: { ...process.env, WEBHOOK_SECRET },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const waitForLine = (pattern: RegExp) =>
    waitFor(
      String(pattern),
      () => pattern.exec(output) ?? undefined,
      () => output,
    );
  const [, port = ""] = await waitForLine(/port (\d+)/);
  return { url: `http://127.0.0.1:${port}/`, waitForLine };
}

it("webhooks.md has a receiver that accepts signed events and rejects others", async (t) => {
  const { url, waitForLine } = await startPageReceiver(t);
  const options = option.read(webhooksOptions, { webhooks: [{ url, secret: WEBHOOK_SECRET }] }, "");
  const logger = createRecordingLogger();
  const webhooks = new Webhooks(options, logger);
  t.after(() => webhooks.close());
  const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0 };
  const run = { id: "r", sessionId: "s1", state: "failed", usage, endedBy: "", error: null } as unknown as RunRecord;
  webhooks.listeners?.["run.failed"]?.({ runId: "r", sessionId: "s1", error: new Error("x"), run });
  await waitForLine(/run\.failed s1 failed/);
  assert.deepEqual(logger.lines, []);
  const headers = {
    "webhook-id": "x",
    "webhook-timestamp": `${Math.floor(Date.now() / 1_000)}`,
    "webhook-signature": "v1,x",
  };
  for (const forgedHeaders of [headers, {}, { ...headers, "webhook-timestamp": "1" }])
    assert.equal((await fetch(url, { method: "POST", body: "{}", headers: forgedHeaders })).status, 401);
});

it("webhooks.md lists all events", () => {
  const listed = [...page.matchAll(/^\| `((?:run|ask|budget)\.\w+)` +\|/gm)].map(([, name]) => name);
  assert.deepEqual(listed, [...WEBHOOK_EVENTS]);
});
