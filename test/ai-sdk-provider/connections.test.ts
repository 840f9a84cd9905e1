import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { startFakeModelServer } from "../helpers/fake-model-server.js";

const run = promisify(execFile);

/** A process of its own: proxies come by the environment, and what is loaded when is a matter of a whole process. */
async function inProcess(code: string, env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await run(
    process.execPath,
    ["--import", "tsx", "--conditions=@gantry/source", "--input-type=module", "-e", code],
    {
      env: { PATH: process.env.PATH ?? "", ...env },
      cwd: new URL("../..", import.meta.url),
    },
  );
  return stdout.trim();
}

const ASK = `
  const { AiSdkProvider } = await import("gantry/adapters/ai-sdk-provider");
  const provider = new AiSdkProvider({ name: "lab", baseUrl: process.argv[1], apiKey: "k" });
  const request = { model: { id: "m1", name: "m1", ownedBy: "x" }, system: "", tools: [], effort: "", cacheKey: "k",
    messages: [{ role: "user", parts: [{ type: "text", text: "hi" }], toolCallId: "", name: "", failed: false }] };
  let text = "";
  for await (const chunk of provider.stream(request, new AbortController().signal)) if (chunk.type === "text") text += chunk.text;
  console.log(text);
  await provider.close();
`;

describe("the network", () => {
  it("goes through the proxy of the environment, but never to this machine, nor where NO_PROXY says so", async () => {
    const server = await startFakeModelServer({ fallback: { say: [{ text: "through" }] } });
    const tunnels: string[] = [];
    const proxy = createServer();
    proxy.on("connect", (request, socket, head) => {
      tunnels.push(request.url ?? "");
      const { port } = new URL(server.url);
      const upstream = connect(Number(port), "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 OK\\r\\n\\r\\n".replaceAll("\\r\\n", "\r\n"));
        upstream.write(head);
        upstream.pipe(socket).pipe(upstream);
      });
      upstream.on("error", () => socket.destroy());
      socket.on("error", () => upstream.destroy());
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const both = { HTTP_PROXY: address, HTTPS_PROXY: address };
    const ask = (url: string, env: Record<string, string>) =>
      inProcess(`process.argv[1] = ${JSON.stringify(url)};${ASK}`, env);
    try {
      const [proxied, direct, excepted] = await Promise.allSettled([
        ask("http://models.invalid/v1", both),
        ask(server.baseUrl, both),
        ask("http://models.invalid/v1", { ...both, NO_PROXY: "models.invalid" }),
      ]);
      assert.equal(proxied.status === "fulfilled" && proxied.value, "through", JSON.stringify(proxied));
      assert.equal(direct.status === "fulfilled" && direct.value, "through", JSON.stringify(direct));
      assert.equal(excepted.status, "rejected");
      assert.deepEqual(tunnels, ["models.invalid:80"]);
    } finally {
      proxy.closeAllConnections();
      proxy.close();
      await server.close();
    }
  });

  it("loads no provider package, no undici and no price list before the first call, and leaves nothing open", async () => {
    const heavy = await inProcess(`
      import { register } from "node:module";
      const { port1, port2 } = new MessageChannel();
      const seen = [];
      port1.on("message", (url) => seen.push(url));
      port1.unref();
      register("data:text/javascript," + encodeURIComponent(
        "let port; export function initialize(p) { port = p; } export async function load(url, context, next) { port.postMessage(url); return next(url, context); }"
      ), { data: port2, transferList: [port2] });
      const { AiSdkProvider } = await import("gantry/adapters/ai-sdk-provider");
      const provider = new AiSdkProvider({ preset: "openai", apiKey: "k" });
      await provider.close();
      await new Promise((resolve) => setTimeout(resolve, 50));
      console.log(seen.filter((url) => /node_modules\\/(@ai-sdk|undici|zod|@pydantic)/.test(url)).length, seen.some((url) => /ai-sdk-provider/.test(url)));
    `);
    assert.equal(heavy, "0 true");
  });
});
