import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, type Logger } from "gantry";
import { Redactor } from "../../../../../src/base/redact.js";
import { Background } from "../../../../../src/processes/background.js";
import { bashTool } from "../../../../../src/tools/shell/bash.js";
import { findBubblewrap } from "../../../../../src/tools/shell/sandbox/bubblewrap.js";
import { tempDir } from "../../../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: false });
const ignoreLine = () => undefined;

/** Sends a request through the proxy of the environment, without curl. Prints the status and the body. */
const NODE_REQUEST = `
const http = require("node:http");
const [target, method = "GET"] = process.argv.slice(1);
const { hostname, port } = new URL(process.env.HTTP_PROXY);
const request = http.request({ hostname, port, method, path: target });
request.on("connect", (response, socket) => {
  console.log("CONNECT", response.statusCode);
  if (response.statusCode !== 200) return socket.destroy();
  socket.end("GET /tunnel HTTP/1.1\\r\\nHost: tunnel\\r\\nConnection: close\\r\\n\\r\\n");
  socket.pipe(process.stdout);
});
request.on("response", (response) => {
  console.log("status", response.statusCode);
  response.pipe(process.stdout);
});
request.end();
`;

/** Returns a command line that sends a request with `NODE_REQUEST`. */
const sendWithNode = (target: string, method = "GET"): string =>
  `'${process.execPath}' -e '${NODE_REQUEST}' ${target} ${method}`;

/** Starts a server, and the tool `bash` whose proxy connects every listed host to it. */
async function createBash(t: TestContext, hosts: readonly string[]) {
  const server = createServer((request, response) =>
    response.end(`answer to ${request.url} of ${request.headers.host}\n`),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const logLines: string[] = [];
  const logger: Logger = {
    debug: ignoreLine,
    info: ignoreLine,
    error: ignoreLine,
    warn: (line) => logLines.push(line),
  };
  const bash = bashTool({
    ...{ env, allowPaths: [], deniedPaths: [], sandbox: "required", network: hosts, secrets: [], timeout: 120, logger },
    background: new Background({}, new Redactor(() => []), (output) => output),
    startMs: 60_000,
    connect: async () => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      await once(socket, "connect");
      return socket;
    },
  });
  t.after(() => bash.close?.());
  const { path: projectDir } = await tempDir(t);
  const run = (command: string, input: object = {}) =>
    callTool(bash, { command, ...input }, createToolContext(projectDir));
  return { run, port, logLines, bash };
}

const listSocketFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("gantry-proxy-"));

/** Counts running forwarders, whose command line names the socket in the sandbox. */
const countForwarders = () =>
  readdirSync("/proc").filter((pid) => {
    try {
      const args = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
      return args[1] === "-e" && args[2]?.includes("/run/gantry-proxy.sock") === true;
    } catch {
      return false;
    }
  }).length;

describe("a list of hosts in tools.bash.network", () => {
  it("is the only network of a command, by CONNECT and plain HTTP", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const [foldersBefore, forwardersBefore] = [listSocketFolders(), countForwarders()];
    const { run } = await createBash(t, ["good.example", "*.wild.example:8080"]);
    const lines = [sendWithNode("http://good.example/plain"), sendWithNode("good.example:443", "CONNECT")];
    const { text } = await run([...lines, sendWithNode("http://a.wild.example:8080/wild")].join("\n"));
    assert.match(text, /status 200\nanswer to \/plain of good\.example/);
    assert.match(text, /CONNECT 200\n[^]*answer to \/tunnel of tunnel/);
    assert.match(text, /status 200\nanswer to \/wild of a\.wild\.example:8080/);
    assert.match(text, /\[exit code 0\]$/);
    assert.equal(countForwarders(), forwardersBefore);
    assert.deepEqual(listSocketFolders(), foldersBefore);
  });

  it("refuses other hosts, and tells the model and the log which", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const { run, logLines } = await createBash(t, ["good.example"]);
    const line = "connection to evil.example:80 refused: tools.bash.network does not list it; the user can add it";
    const command = sendWithNode("http://evil.example/");
    const targets = ["169.254.169.254:80", "127.0.0.1:443", "1.1.1.1:443"];
    const { text } = await run(
      [command, command, ...targets.map((target) => sendWithNode(target, "CONNECT"))].join("\n"),
    );
    assert.match(text, /status 403\ngantry: connection to evil\.example:80 refused/);
    assert.ok(text.includes(`[${line}]`), text);
    for (const target of targets) assert.ok(text.includes(`[connection to ${target} refused: `), text);
    assert.equal(logLines.filter((logLine) => logLine === line).length, 1);
  });

  it("leaves no other way out: no address, no name, no socket of this machine", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const { run, port } = await createBash(t, ["good.example"]);
    const script = `
      const net = require("node:net");
      for (const [host, port] of [["127.0.0.1", ${port}], ["1.1.1.1", 443], ["169.254.169.254", 80], ["localhost", ${port}]])
        net.connect(port, host).on("connect", () => console.log("CONNECTED", host)).on("error", (error) => console.log(host, error.code));
      require("node:dns").lookup("good.example", (error) => console.log("lookup", error?.code));
      require("node:dns").resolve4("good.example", (error) => console.log("resolve", error?.code));`;
    const { text } = await run(`'${process.execPath}' -e '${script}'`);
    assert.doesNotMatch(text, /CONNECTED/);
    assert.match(text, /127\.0\.0\.1 ECONNREFUSED/);
    assert.match(text, /1\.1\.1\.1 ENETUNREACH/);
    assert.match(text, /lookup E/);
    assert.match(text, /resolve E/);
  });

  it("applies to a background command until its end", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const [foldersBefore, forwardersBefore] = [listSocketFolders(), countForwarders()];
    const { run } = await createBash(t, ["good.example"]);
    const lines = [sendWithNode("http://good.example/background"), sendWithNode("http://evil.example/")];
    const { text } = await run(lines.join("\n"), { background: true });
    assert.match(text, /status 200\nanswer to \/background of good\.example/);
    assert.match(text, /\[connection to evil\.example:80 refused/);
    assert.equal(countForwarders(), forwardersBefore);
    assert.deepEqual(listSocketFolders(), foldersBefore);
  });

  it("closes the network of a running command when the tool is closed", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const [foldersBefore, forwardersBefore] = [listSocketFolders(), countForwarders()];
    const { bash } = await createBash(t, ["good.example"]);
    const { path: projectDir } = await tempDir(t);
    const controller = new AbortController();
    let call: Promise<unknown> = Promise.resolve();
    await new Promise<void>((resolve, reject) => {
      const context = createToolContext(projectDir, { progress: () => resolve(), signal: controller.signal });
      call = callTool(bash, { command: "echo started; sleep 300" }, context);
      call.catch(reject);
    });
    assert.equal(countForwarders(), forwardersBefore + 1);
    await bash.close?.();
    assert.deepEqual(listSocketFolders(), foldersBefore);
    controller.abort();
    await call;
    assert.equal(countForwarders(), forwardersBefore);
  });

  it("refuses detached commands, which would outlive the proxy", async (t) => {
    if ((await bubblewrap) === undefined) return t.skip("bubblewrap does not work here");
    const { path: keptPath } = await tempDir(t);
    const [bash] = builtinTools({ env, bash: { network: ["good.example"], keptPath } }).filter(
      ({ name }) => name === "bash",
    );
    t.after(() => bash?.close?.());
    assert.ok(bash);
    const context = createToolContext(keptPath);
    await assert.rejects(
      callTool(bash, { command: "true", detached: true }, context),
      /outlive the proxy of tools\.bash\.network/,
    );
  });

  it("refuses commands without a sandbox", async (t) => {
    const [bash] = builtinTools({ env, bash: { network: ["good.example"], sandbox: "off" } }).filter(
      ({ name }) => name === "bash",
    );
    assert.ok(bash);
    const { path: projectDir } = await tempDir(t);
    await assert.rejects(
      callTool(bash, { command: "true" }, createToolContext(projectDir)),
      /a list of hosts in tools\.bash\.network needs bubblewrap/,
    );
  });
});
