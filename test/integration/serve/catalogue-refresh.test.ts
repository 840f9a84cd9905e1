import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

/** Starts a proxy that rejects every connection and records the requested hosts with ports. */
async function startRejectingProxy(t: Hooks) {
  const requestedHosts: string[] = [];
  const server = createServer((_, response) => void response.writeHead(403).end());
  server.on("connect", ({ url }, socket) => {
    requestedHosts.push(String(url));
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => void server.close());
  return { requestedHosts, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Starts a server that has answered one request with a provider whose models have prices. */
async function startAnsweredServer(t: Hooks, catalogueConfig: Record<string, unknown>) {
  const modelServer = await startFakeModelServer({ fallback: { say: [{ text: "OK." }] } });
  t.after(() => modelServer.close());
  const proxy = await startRejectingProxy(t);
  const modelId = "openai/gpt-oss-120b";
  const providers = [{ provider: "groq", base_url: modelServer.baseUrl, api_key: "k", models: [modelId] }];
  const config = {
    providers,
    model: { provider: "groq", model: modelId },
    log: { level: "debug" },
    ...catalogueConfig,
  };
  const server = await startServer(t, { config, env: { HTTPS_PROXY: proxy.url } });
  const sendPrompt = async (): Promise<void> => {
    const body = JSON.stringify({ message: "hi" });
    const runResponse = await fetch(`${server.url}/api/run`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    assert.equal(runResponse.status, 200);
    assert.equal(((await runResponse.json()) as { output: string }).output, "OK.");
  };
  await sendPrompt();
  return { server, proxy, sendPrompt };
}

describe("the price update of a server", () => {
  it("runs once after the first answer, and its failure is logged at level debug", async (t) => {
    const { proxy, server, sendPrompt } = await startAnsweredServer(t, {});
    await waitUntil(() => proxy.requestedHosts.length > 0);
    assert.deepEqual([...new Set(proxy.requestedHosts)], ["raw.githubusercontent.com:443"]);
    await waitUntil(() => server.stderr.includes("price update failed; using the known prices"));
    const logLine = server.stderr.split("\n").find((line) => line.includes("price update failed"));
    assert.match(String(logLine), /debug/i);
    const hostCount = proxy.requestedHosts.length;
    await sendPrompt();
    assert.equal((await server.stop()).code, 0);
    assert.equal(proxy.requestedHosts.length, hostCount, "a second answer causes no further update");
  });

  it("does not run with `catalogue.refresh: false`", async (t) => {
    const { proxy, server, sendPrompt } = await startAnsweredServer(t, { catalogue: { refresh: false } });
    await sendPrompt();
    server.child.kill("SIGTERM");
    assert.equal((await server.exited).code, 0);
    assert.deepEqual(proxy.requestedHosts, []);
  });
});
