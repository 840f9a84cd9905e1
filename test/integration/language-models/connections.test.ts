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
import { ROOT, SOURCE_FLAGS } from "../../helpers/source-paths.js";
import { tempDir } from "../../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);

/** Uses the build if the test runner has made one, because a build loads in a third of the time of the sources. */
const BUILD_FLAGS = process.env.GANTRY_TEST_DIST === "1" ? [] : SOURCE_FLAGS;

/**
 * Runs code in a separate process: proxies are set by the environment, and loaded modules belong to the whole process.
 */
async function runInChildProcess(
  code: string,
  env: Record<string, string> = {},
  flags = SOURCE_FLAGS,
): Promise<string> {
  const { stdout } = await execFileAsync(process.execPath, [...flags, "--input-type=module", "-e", code], {
    env: { PATH: process.env.PATH ?? "", ...env },
    cwd: ROOT,
  });
  return stdout.trim();
}

const createRequestCode = (model: Model): string => `
  const request = { model: ${JSON.stringify(model)}, system: "", tools: [], effort: "", cacheKey: "k",
    messages: [{ role: "user", parts: [{ type: "text", text: "hi" }], toolCallId: "", name: "", failed: false }] };
  let text = "";
  for await (const chunk of provider.stream(request, new AbortController().signal)) if (chunk.type === "text") text += chunk.text;
  console.log(text);
  await provider.close();
`;
const REQUEST_CODE = `
  const { AiSdkProvider } = await import("gantry/adapters/language-models");
  const provider = new AiSdkProvider({ name: "lab", baseUrl: process.argv[1], apiKey: "k" });
  ${createRequestCode({ id: "m1", name: "m1", ownedBy: "x" })}
`;

/** Code that records the URLs of all modules that are loaded after the code. */
const RECORD_CODE = `
  import { register } from "node:module";
  const { port1, port2 } = new MessageChannel();
  const recordedUrls = [];
  port1.on("message", (url) => recordedUrls.push(url));
  port1.unref();
  register("data:text/javascript," + encodeURIComponent(
    "let port; export function initialize(p) { port = p; } export async function load(url, context, next) { port.postMessage(url); return next(url, context); }"
  ), { data: port2, transferList: [port2] });
`;
/**
 * Code that prints the number of recorded modules of large packages, and whether any module of the adapter was
 * recorded. The last import proves that all earlier modules were recorded.
 */
const REPORT_CODE = `
  await import("data:text/javascript,/* the last file */");
  port1.ref();
  while (!recordedUrls.some((url) => url.includes("the last file") || url.includes("the%20last%20file")))
    await new Promise((resolve) => port1.once("message", resolve));
  port1.unref();
  const heavyUrls = recordedUrls.filter((url) => /node_modules\\/(@ai-sdk|undici|zod|@pydantic)/.test(url));
  console.log(heavyUrls.length, recordedUrls.some((url) => /language-models/.test(url)));
`;

/** A response in server-sent events. */
const EVENT_STREAM = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "sealed" }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;

/** A server with a certificate that only configured clients trust. */
async function startTlsServer(t: TestContext): Promise<{ port: number; requests: string[] }> {
  const requests: string[] = [];
  const server = createTlsServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, (request, response) => {
    requests.push(`${request.headers.host ?? ""} ${request.headers.authorization ?? ""}`);
    request
      .resume()
      .on("end", () => response.writeHead(200, { "content-type": "text/event-stream" }).end(EVENT_STREAM));
  });
  return { port: await listen(t, server), requests };
}

/** A proxy that forwards every connection to one port and records the requested targets. */
async function startProxy(t: TestContext, port: number): Promise<{ url: string; tunnels: string[] }> {
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
  return { url: `http://127.0.0.1:${await listen(t, proxy)}`, tunnels };
}

async function listen(t: TestContext, server: Server | TlsServer): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const runRequest = (url: string, env: Record<string, string>): Promise<string> =>
  runInChildProcess(`process.argv[1] = ${JSON.stringify(url)};${REQUEST_CODE}`, env, BUILD_FLAGS);

describe("the connection to a model provider", () => {
  it("uses the proxy of the environment, except for this machine and the hosts in NO_PROXY", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "through" }] } });
    t.after(() => server.close());
    const proxy = await startProxy(t, Number(new URL(server.url).port));
    const proxyVariables = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url };
    const [proxiedResult, directResult, exceptedResult] = await Promise.allSettled([
      runRequest("http://models.invalid/v1", proxyVariables),
      runRequest(server.baseUrl, proxyVariables),
      runRequest("http://models.invalid/v1", { ...proxyVariables, NO_PROXY: "models.invalid" }),
    ]);
    assert.equal(proxiedResult.status === "fulfilled" && proxiedResult.value, "through", JSON.stringify(proxiedResult));
    assert.equal(directResult.status === "fulfilled" && directResult.value, "through", JSON.stringify(directResult));
    assert.equal(exceptedResult.status, "rejected");
    assert.deepEqual(proxy.tunnels, ["models.invalid:80"]);
  });

  it("uses TLS directly and through a proxy, and rejects an untrusted certificate", async (t) => {
    const server = await startTlsServer(t);
    const proxy = await startProxy(t, server.port);
    const folder = await tempDir(t);
    await folder.write({ "ca.pem": CERTIFICATE });
    const trustedEnv = { NODE_EXTRA_CA_CERTS: folder.at("ca.pem") };
    const url = `https://127.0.0.1:${server.port}/v1`;
    const [directTlsResult, tunnelledResult, untrustedResult] = await Promise.allSettled([
      runRequest(url, trustedEnv),
      runRequest("https://models.invalid/v1", { ...trustedEnv, HTTPS_PROXY: proxy.url }),
      runRequest(url, {}),
    ]);
    assert.equal(
      directTlsResult.status === "fulfilled" && directTlsResult.value,
      "sealed",
      JSON.stringify(directTlsResult),
    );
    assert.equal(
      tunnelledResult.status === "fulfilled" && tunnelledResult.value,
      "sealed",
      JSON.stringify(tunnelledResult),
    );
    assert.match(JSON.stringify(untrustedResult), /the connection is not trusted \(\w+\)/);
    assert.deepEqual(proxy.tunnels, ["models.invalid:443"]);
    assert.deepEqual(server.requests.sort(), [`127.0.0.1:${server.port} Bearer k`, "models.invalid Bearer k"]);
  });

  it("loads no provider package, no undici and no price list before the first call", async () => {
    const moduleReport = await runInChildProcess(`
      ${RECORD_CODE}
      const { AiSdkProvider } = await import("gantry/adapters/language-models");
      const provider = new AiSdkProvider({ preset: "openai", apiKey: "k" });
      await provider.close();
      ${REPORT_CODE}
    `);
    assert.equal(moduleReport, "0 true");
  });

  it("loads no provider package, undici or zod in a request after prepare(), on each wire", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "ready" }] } });
    t.after(() => server.close());
    const wireReports = WIRES.map(async (wire) => {
      const options = { name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" };
      const report = await runInChildProcess(`
        const { AiSdkProvider } = await import("gantry/adapters/language-models");
        const provider = new AiSdkProvider(${JSON.stringify(options)});
        await provider.prepare();
        ${RECORD_CODE}
        ${createRequestCode(WIRE_MODELS[wire])}
        ${REPORT_CODE}
      `);
      return `${wire}: ${report}`;
    });
    // The price list is not loaded for a server on this machine.
    assert.deepEqual(
      await Promise.all(wireReports),
      WIRES.map((wire) => `${wire}: ready\n0 false`),
    );
    assert.equal(server.requests.length, WIRES.length);
  });

  it("loads no provider package, no undici and no platform fetch for a chat completions request", async (t) => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "light" }] } });
    t.after(() => server.close());
    const requestScript = `process.argv[1] = ${JSON.stringify(server.baseUrl)};${REQUEST_CODE}`;
    const fetchScript = `
      const countFetchModules = () => process.moduleLoadList.filter((name) => name.endsWith("deps/undici/undici")).length;
      // From Node 22 on, an ES module that imports Node's HTTP loads undici. The build has no such module.
      await import("gantry/adapters/language-models");
      const initialCount = countFetchModules();
      ${requestScript}
      console.log(countFetchModules() - initialCount);
    `;
    const reports = await Promise.all([
      runInChildProcess(RECORD_CODE + requestScript + REPORT_CODE),
      runInChildProcess(fetchScript),
    ]);
    assert.deepEqual(reports, ["light\n0 true", "light\n0"]);
  });
});
