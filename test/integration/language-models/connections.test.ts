import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import type { Model } from "gantry/plugin";
import { WIRES } from "gantry/adapters/language-models";
import { CERTIFICATE, CERTIFICATE_KEY } from "../../helpers/certificate.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { ROOT, SOURCE_FLAGS } from "../../helpers/node.js";
import { tempDir } from "../../helpers/temp.js";

const run = promisify(execFile);

/** The build loads in a third of the time of the sources. Used if the test runner has made it. */
const BUILD_FLAGS = process.env.GANTRY_TEST_DIST === "1" ? [] : SOURCE_FLAGS;

/**
 * Runs code in a separate process: proxies are set by the environment, and loaded modules belong to the whole process.
 */
async function inProcess(code: string, env: Record<string, string> = {}, flags = SOURCE_FLAGS): Promise<string> {
  const { stdout } = await run(process.execPath, [...flags, "--input-type=module", "-e", code], {
    env: { PATH: process.env.PATH ?? "", ...env },
    cwd: ROOT,
  });
  return stdout.trim();
}

const askOf = (model: Model): string => `
  const request = { model: ${JSON.stringify(model)}, system: "", tools: [], effort: "", cacheKey: "k",
    messages: [{ role: "user", parts: [{ type: "text", text: "hi" }], toolCallId: "", name: "", failed: false }] };
  let text = "";
  for await (const chunk of provider.stream(request, new AbortController().signal)) if (chunk.type === "text") text += chunk.text;
  console.log(text);
  await provider.close();
`;
const ASK = `
  const { AiSdkProvider } = await import("gantry/adapters/language-models");
  const provider = new AiSdkProvider({ name: "lab", baseUrl: process.argv[1], apiKey: "k" });
  ${askOf({ id: "m1", name: "m1", ownedBy: "x" })}
`;

/** Records the modules that are loaded from here on. */
const SEEN = `
  import { register } from "node:module";
  const { port1, port2 } = new MessageChannel();
  const seen = [];
  port1.on("message", (url) => seen.push(url));
  port1.unref();
  register("data:text/javascript," + encodeURIComponent(
    "let port; export function initialize(p) { port = p; } export async function load(url, context, next) { port.postMessage(url); return next(url, context); }"
  ), { data: port2, transferList: [port2] });
`;
/**
 * Prints the number of heavy modules, and whether any module was recorded. The last import proves that all earlier
 * modules were recorded.
 */
const COUNTED = `
  await import("data:text/javascript,/* the last file */");
  port1.ref();
  while (!seen.some((url) => url.includes("the last file") || url.includes("the%20last%20file")))
    await new Promise((resolve) => port1.once("message", resolve));
  port1.unref();
  const heavy = seen.filter((url) => /node_modules\\/(@ai-sdk|undici|zod|@pydantic)/.test(url));
  console.log(heavy.length, seen.some((url) => /language-models/.test(url)));
`;

/** A response in server-sent events. */
const EVENTS = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "sealed" }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;

/** A server with a certificate that only configured clients trust. */
async function startTlsServer(t: TestContext): Promise<{ port: number; requests: string[] }> {
  const requests: string[] = [];
  const server = createTlsServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, (request, response) => {
    requests.push(`${request.headers.host ?? ""} ${request.headers.authorization ?? ""}`);
    request.resume().on("end", () => response.writeHead(200, { "content-type": "text/event-stream" }).end(EVENTS));
  });
  return { port: await listening(t, server), requests };
}

/** A proxy that forwards every connection to one port and records the requested targets. */
async function proxyTo(t: TestContext, port: number): Promise<{ url: string; tunnels: string[] }> {
  const tunnels: string[] = [];
  const proxy = createServer();
  proxy.on("connect", (request, socket, head) => {
    tunnels.push(request.url ?? "");
    const upstream = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  return { url: `http://127.0.0.1:${await listening(t, proxy)}`, tunnels };
}

async function listening(t: TestContext, server: Server | TlsServer): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const ask = (url: string, env: Record<string, string>): Promise<string> =>
  inProcess(`process.argv[1] = ${JSON.stringify(url)};${ASK}`, env, BUILD_FLAGS);

describe("the connection to a model provider", () => {
  it("uses the proxy of the environment, except for this machine and the hosts in NO_PROXY", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "through" }] } });
    t.after(() => server.close());
    const proxy = await proxyTo(t, Number(new URL(server.url).port));
    const both = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url };
    const [proxied, direct, excepted] = await Promise.allSettled([
      ask("http://models.invalid/v1", both),
      ask(server.baseUrl, both),
      ask("http://models.invalid/v1", { ...both, NO_PROXY: "models.invalid" }),
    ]);
    assert.equal(proxied.status === "fulfilled" && proxied.value, "through", JSON.stringify(proxied));
    assert.equal(direct.status === "fulfilled" && direct.value, "through", JSON.stringify(direct));
    assert.equal(excepted.status, "rejected");
    assert.deepEqual(proxy.tunnels, ["models.invalid:80"]);
  });

  it("uses TLS directly and through a proxy, and rejects an untrusted certificate", async (t) => {
    const server = await startTlsServer(t);
    const proxy = await proxyTo(t, server.port);
    const folder = await tempDir(t);
    await folder.write({ "ca.pem": CERTIFICATE });
    const trusting = { NODE_EXTRA_CA_CERTS: folder.at("ca.pem") };
    const url = `https://127.0.0.1:${server.port}/v1`;
    const [direct, tunnelled, distrusted] = await Promise.allSettled([
      ask(url, trusting),
      ask("https://models.invalid/v1", { ...trusting, HTTPS_PROXY: proxy.url }),
      ask(url, {}),
    ]);
    assert.equal(direct.status === "fulfilled" && direct.value, "sealed", JSON.stringify(direct));
    assert.equal(tunnelled.status === "fulfilled" && tunnelled.value, "sealed", JSON.stringify(tunnelled));
    assert.match(JSON.stringify(distrusted), /the connection is not trusted \(\w+\)/);
    assert.deepEqual(proxy.tunnels, ["models.invalid:443"]);
    assert.deepEqual(server.requests.sort(), [`127.0.0.1:${server.port} Bearer k`, "models.invalid Bearer k"]);
  });

  it("loads no provider package, no undici and no price list before the first call", async () => {
    const heavy = await inProcess(`
      ${SEEN}
      const { AiSdkProvider } = await import("gantry/adapters/language-models");
      const provider = new AiSdkProvider({ preset: "openai", apiKey: "k" });
      await provider.close();
      ${COUNTED}
    `);
    assert.equal(heavy, "0 true");
  });

  it("loads nothing heavy in a request after prepare(), on each wire", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "ready" }] } });
    t.after(() => server.close());
    const wireRuns = WIRES.map(async (wire) => {
      const options = { name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" };
      const report = await inProcess(`
        const { AiSdkProvider } = await import("gantry/adapters/language-models");
        const provider = new AiSdkProvider(${JSON.stringify(options)});
        await provider.prepare();
        ${SEEN}
        ${askOf(WIRE_MODELS[wire])}
        ${COUNTED}
      `);
      return `${wire}: ${report}`;
    });
    // The price list is not loaded for a server on this machine.
    assert.deepEqual(
      await Promise.all(wireRuns),
      WIRES.map((wire) => `${wire}: ready\n0 false`),
    );
    assert.equal(server.requests.length, WIRES.length);
  });

  it("loads no provider package, no undici and no platform fetch for a chat completions request", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "light" }] } });
    t.after(() => server.close());
    const requestScript = `process.argv[1] = ${JSON.stringify(server.baseUrl)};${ASK}`;
    const platform = `
      const fetch = () => process.moduleLoadList.filter((name) => name.endsWith("deps/undici/undici")).length;
      // In modules, Node's HTTP loads it from Node 22 on; the build has no such module.
      await import("gantry/adapters/language-models");
      const before = fetch();
      ${requestScript}
      console.log(fetch() - before);
    `;
    const reports = await Promise.all([inProcess(SEEN + requestScript + COUNTED), inProcess(platform)]);
    assert.deepEqual(reports, ["light\n0 true", "light\n0"]);
  });
});
