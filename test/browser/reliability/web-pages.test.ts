import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { it } from "node:test";
import { findBrowser, openBrowser, type BrowserName } from "../../helpers/browser.js";
import { createNamespaces, type Namespaces } from "../../helpers/namespaces.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const HOOKS_TRANSPORT_FILE = fileURLToPath(new URL("../../helpers/hooks-transport.mjs", import.meta.url));
const OBSERVER_URL = new URL("../../helpers/observed-server.mjs", import.meta.url).href;
const SITE_FILE = fileURLToPath(new URL("../../helpers/web-site.mjs", import.meta.url));
const REBOUND_HOST = "rebound.example";

/** Spellings of a server's address that a page may use. */
const SPELLINGS_BY_BIND_ADDRESS = {
  "127.0.0.1": [
    "localhost",
    "app.localhost",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "0",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    REBOUND_HOST,
  ],
  "::1": ["localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]"],
  "0.0.0.0": ["127.0.0.1", "localhost", "0.0.0.0", "10.99.0.1", "[::ffff:10.99.0.1]", REBOUND_HOST],
} as const;
type BindAddress = keyof typeof SPELLINGS_BY_BIND_ADDRESS;

interface Target {
  tag: string;
  bindAddress: BindAddress;
  origin: string;
  /** A session that the page tries to delete. */
  session: string;
}

/** Script of the page: sends requests to each endpoint of each target and reports the results that a page can see. */
const SCRIPT = `
// Time: the limit for a request without a response.
const timeoutMs = 30_000;
const withTimeout = (work) => Promise.race([work, new Promise((resolve) => setTimeout(resolve, timeoutMs, "silent"))]).catch(() => "failed");
const request = (url, init) => withTimeout(fetch(url, init).then((response) => response.type === "opaque" ? "opaque" : String(response.status)));
const json = { "content-type": "application/json" };
const endpoints = ({ tag, origin, session }) => {
  const createUrl = (path, endpoint) => origin + path + "?tag=" + tag + "/" + endpoint;
  const initialize = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });
  const run = JSON.stringify({ message: tag });
  return {
    "run": () => request(createUrl("/api/run", "run"), { method: "POST", headers: json, body: run }),
    "run, plain text": () => request(createUrl("/api/run", "run, plain text"), { method: "POST", mode: "no-cors", body: run }),
    "run, form": () => withTimeout(new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.name = tag;
      document.body.appendChild(frame);
      const form = document.body.appendChild(document.createElement("form"));
      Object.assign(form, { method: "POST", enctype: "text/plain", action: createUrl("/api/run", "run, form"), target: tag });
      const field = form.appendChild(document.createElement("input"));
      field.name = '{"message":"' + tag + '","x":"';
      field.value = '"}';
      frame.onload = () => resolve("opaque");
      form.submit();
    })),
    "sessions": () => request(createUrl("/api/sessions", "sessions")),
    "sessions, image": () => request(createUrl("/api/sessions", "sessions, image"), { mode: "no-cors", referrerPolicy: "no-referrer" }),
    "delete": () => request(createUrl("/api/sessions/" + session, "delete"), { method: "DELETE" }),
    "acp initialize": () => request(createUrl("/acp", "acp initialize"), { method: "POST", headers: json, body: initialize }),
    "acp initialize, plain text": () => request(createUrl("/acp", "acp initialize, plain text"), { method: "POST", mode: "no-cors", body: initialize }),
    "acp stream": () => withTimeout(new Promise((resolve) => {
      const source = new EventSource(createUrl("/acp", "acp stream"));
      source.onopen = () => resolve("open");
      source.onerror = () => { source.close(); resolve("failed"); };
    })),
    "acp socket": () => withTimeout(new Promise((resolve) => {
      const socket = new WebSocket(createUrl("/acp", "acp socket").replace("http", "ws"));
      socket.onopen = () => resolve("open");
      socket.onerror = () => resolve("failed");
    })),
    "plugin": () => request(createUrl("/hooks", "plugin"), { method: "POST", mode: "no-cors", body: "x" }),
  };
};
addEventListener("load", async () => {
  const results = {};
  await Promise.all(targets.map(async (target) => {
    for (const [endpoint, send] of Object.entries(endpoints(target))) results[target.tag + "/" + endpoint] = await send();
  }));
  await fetch("/report", { method: "POST", body: JSON.stringify({ results }) });
  if (next) location.href = next;
});
`;

interface Site {
  port: number;
  /** Results that the page can see, by target tag and endpoint. */
  results: Promise<Record<string, string>>;
}

/**
 * Serves a page in a namespace. The page sends requests to the targets when a browser opens it, and then navigates to
 * `nextUrl`.
 */
async function serveSite(
  hooks: Hooks,
  commandPrefix: readonly string[],
  targets: readonly Target[],
  nextUrl?: string,
): Promise<Site> {
  const page = `<!doctype html><title>page</title><body><script>const targets = ${JSON.stringify(targets)}, next = ${JSON.stringify(nextUrl ?? "")};${SCRIPT}</script>`;
  const [command = "", ...args] = [...commandPrefix, process.execPath, SITE_FILE, Buffer.from(page).toString("base64")];
  const child = spawn(command, args, { stdio: "pipe" });
  const closeEvent = once(child, "close");
  hooks.after(async () => {
    child.stdin.end();
    await closeEvent;
  });
  let text = "";
  const lineResolvers: ((line: string) => void)[] = [];
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const receivedLines = (text + chunk).split("\n");
    text = receivedLines.pop() ?? "";
    for (const line of receivedLines) lineResolvers.shift()?.(line);
  });
  const readLine = () => new Promise<string>((resolve) => lineResolvers.push(resolve));
  const firstLine = readLine();
  const report = readLine();
  const { port } = JSON.parse(await firstLine) as { port: number };
  return {
    port,
    results: report.then((reportLine) => (JSON.parse(reportLine) as { results: Record<string, string> }).results),
  };
}

async function runCurl(commandPrefix: readonly string[], ...args: string[]): Promise<{ status: number; body: string }> {
  const [command = "", ...commandArguments] = [...commandPrefix, "curl", "-s", "-g", "-w", "\n%{http_code}", ...args];
  const child = spawn(command, commandArguments, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(child, "close");
  const lastNewline = text.lastIndexOf("\n");
  return { status: Number(text.slice(lastNewline + 1)), body: text.slice(0, lastNewline) };
}

/** A server in a namespace with all transports enabled: HTTP, ACP and a third-party mount. */
async function startServerInNamespace(
  hooks: Hooks,
  { firstPrefix: serverPrefix }: Namespaces,
  bindAddress: BindAddress,
): Promise<GantryServer> {
  return startServer(hooks, {
    args: ["serve", "--port", "0", "--host", bindAddress, ...(bindAddress === "0.0.0.0" ? ["--insecure"] : [])],
    config: { server: { transports: ["koa-http-api", "acp-http-sse-ws", HOOKS_TRANSPORT_FILE] } },
    commandPrefix: serverPrefix,
    env: { NODE_OPTIONS: `--import ${OBSERVER_URL}` },
  });
}

interface ServedResponse {
  method: string;
  url: string;
  status: number;
}

/** Returns the server's responses to requests of pages. */
function readResponses(server: GantryServer): (ServedResponse & { tag: string })[] {
  return [...server.stderr.matchAll(/^ANSWERED (.*)$/gm)]
    .map(([, text = ""]) => JSON.parse(text) as ServedResponse)
    .flatMap((response) => {
      const tag = new URL(response.url, "http://x").searchParams.get("tag");
      return tag === null || response.method === "OPTIONS" ? [] : [{ ...response, tag }];
    });
}

async function listSessions(commandPrefix: readonly string[], server: GantryServer): Promise<string[]> {
  const { body } = await runCurl(commandPrefix, new URL("/api/sessions?size=100", getLocalUrl(server)).href);
  return (JSON.parse(body) as { sessions: { id: string }[] }).sessions.map(({ id }) => id);
}

/** Creates a session with curl. Resolves with its id. */
async function createSession(commandPrefix: readonly string[], server: GantryServer): Promise<string> {
  const idsBefore = await listSessions(commandPrefix, server);
  const { status } = await runCurl(
    commandPrefix,
    new URL("/api/run", getLocalUrl(server)).href,
    "-d",
    '{"message":"hello"}',
  );
  assert.equal(status, 200, "the server accepts a request of curl");
  return (await listSessions(commandPrefix, server)).find((id) => !idsBefore.includes(id)) ?? "";
}

/** Returns the URL of a server for clients on its own machine. */
function getLocalUrl(server: GantryServer): string {
  return server.url.replace("0.0.0.0", "127.0.0.1");
}

const BROWSERS: readonly BrowserName[] = ["firefox", "chromium"];
const BIND_ADDRESSES = Object.keys(SPELLINGS_BY_BIND_ADDRESS) as BindAddress[];
/** Endpoints that accept a page of this machine. They reject plain text, and ACP accepts pages only over WebSockets. */
const LOCAL_RESULTS = { run: "200", sessions: "200", delete: "200", "acp socket": "open" };

it("pages of other sites get no access to any endpoint by any spelling of the server's address; local pages and curl do", async (t) => {
  const browsers = BROWSERS.filter((name) => findBrowser(name) !== undefined);
  if (browsers.length === 0) return t.skip("no firefox and no chromium here");
  for (const name of BROWSERS) if (!browsers.includes(name)) t.diagnostic(`skipped: no ${name} here`);
  const namespaces = await createNamespaces(t);
  if (typeof namespaces === "string") return t.skip(`no network namespaces here: ${namespaces}`);
  const { firstPrefix: serverPrefix, secondPrefix: sitePrefix } = namespaces;
  const servers = new Map(
    await Promise.all(
      BIND_ADDRESSES.map(
        async (bindAddress) => [bindAddress, await startServerInNamespace(t, namespaces, bindAddress)] as const,
      ),
    ),
  );
  const getPort = (bindAddress: BindAddress) => new URL(servers.get(bindAddress)!.url).port;
  const protectedSessions = new Map(
    await Promise.all(
      [...servers].map(
        async ([bindAddress, server]) => [bindAddress, await createSession(serverPrefix, server)] as const,
      ),
    ),
  );
  const deletableSessions = new Map<BrowserName, string>();
  for (const browser of browsers)
    deletableSessions.set(browser, await createSession(serverPrefix, servers.get("127.0.0.1")!));

  const table: string[] = [];
  const faults: string[] = [];
  const visitSites = async (browser: BrowserName) => {
    const createTarget = (siteKind: string, bindAddress: BindAddress, spelling: string, session: string): Target => ({
      tag: `${browser}|${siteKind}|${bindAddress}|${spelling}`,
      bindAddress,
      origin: `http://${spelling}:${getPort(bindAddress)}`,
      session,
    });
    const foreignTargets = BIND_ADDRESSES.flatMap((bindAddress) =>
      SPELLINGS_BY_BIND_ADDRESS[bindAddress].map((spelling) =>
        createTarget("foreign", bindAddress, spelling, protectedSessions.get(bindAddress)!),
      ),
    );
    // The page's host is `localhost`; to a browser, 127.0.0.1 is another site.
    const localTargets = ["127.0.0.1", "localhost"].map((spelling, i) =>
      createTarget("loopback", "127.0.0.1", spelling, i === 0 ? deletableSessions.get(browser)! : "none"),
    );
    const localSite = await serveSite(t, serverPrefix, localTargets);
    const foreignSite = await serveSite(t, sitePrefix, foreignTargets, `http://localhost:${localSite.port}/`);
    const { ended } = await openBrowser(t, browser, `http://${namespaces.secondAddress}:${foreignSite.port}/`, {
      commandPrefix: serverPrefix,
      loopbackName: REBOUND_HOST,
    });
    const [foreignResults, localResults] = await Promise.race([
      Promise.all([foreignSite.results, localSite.results]),
      ended,
    ]);
    const results = { ...foreignResults, ...localResults };
    for (const { tag, bindAddress, session } of [...foreignTargets, ...localTargets]) {
      const responses = readResponses(servers.get(bindAddress)!);
      const row = Object.entries(results)
        .filter(([key]) => key.startsWith(`${tag}/`))
        .map(([key, result]) => {
          const endpoint = key.slice(tag.length + 1);
          const statuses = responses.filter((response) => response.tag === key).map(({ status }) => status);
          if (
            foreignTargets.some((target) => target.tag === tag)
              ? hasAccess(endpoint, bindAddress, result, statuses)
              : isRejected(endpoint, result, session)
          )
            faults.push(`${key}: ${result} ${statuses.join()}`);
          return `${endpoint} ${statuses.length > 0 ? statuses.join("+") : `- (${result})`}`;
        });
      table.push(`${tag} | ${row.join(" | ")}`);
      // A request that the browser itself blocks does not test the server.
      if (!responses.some((response) => response.tag.startsWith(`${tag}/`)))
        faults.push(`${tag}: nothing reached the server`);
    }
  };
  await Promise.all(browsers.map(visitSites));
  for (const line of table.sort()) t.diagnostic(line);
  assert.deepEqual(faults, []);
  for (const [bindAddress, server] of servers) {
    const remainingSessions = await listSessions(serverPrefix, server);
    assert.ok(
      remainingSessions.includes(protectedSessions.get(bindAddress)!),
      `${bindAddress}: the session was deleted`,
    );
    // Each local page starts two sessions.
    const startedCount = bindAddress === "127.0.0.1" ? 2 * browsers.length : 0;
    assert.equal(remainingSessions.length, 1 + startedCount, `${bindAddress}: number of sessions`);
  }
});

/** Whether a page of another site got access, according to the page's own result and to the server's responses. */
function hasAccess(endpoint: string, bindAddress: BindAddress, result: string, statuses: readonly number[]): boolean {
  // A request that changes nothing and whose response the page cannot read gives no access. The server cannot
  // distinguish such a request from a followed link.
  if (endpoint === "sessions, image" && bindAddress === "0.0.0.0") return result === "200";
  return result === "open" || result === "200" || statuses.some((status) => status !== 403);
}

/** Whether a page of this machine was refused. */
function isRejected(endpoint: string, result: string, session: string): boolean {
  if (!(endpoint in LOCAL_RESULTS) || (endpoint === "delete" && session === "none")) return false;
  return result !== LOCAL_RESULTS[endpoint as keyof typeof LOCAL_RESULTS];
}
