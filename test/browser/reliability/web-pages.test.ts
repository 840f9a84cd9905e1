import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { it } from "node:test";
import { findBrowser, openBrowser, type BrowserName } from "../../helpers/browser.js";
import { twoNamespaces, type Namespaces } from "../../helpers/namespaces.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp.js";

const HOOKS = fileURLToPath(new URL("../../helpers/hooks-transport.mjs", import.meta.url));
const OBSERVER = new URL("../../helpers/observed-server.mjs", import.meta.url).href;
const SITE = fileURLToPath(new URL("../../helpers/web-site.mjs", import.meta.url));
const REBOUND = "rebound.example";

/** Spellings of a server's address that a page may use. */
const SPELLINGS = {
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
    REBOUND,
  ],
  "::1": ["localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]"],
  "0.0.0.0": ["127.0.0.1", "localhost", "0.0.0.0", "10.99.0.1", "[::ffff:10.99.0.1]", REBOUND],
} as const;
type Bound = keyof typeof SPELLINGS;

interface Target {
  tag: string;
  bound: Bound;
  origin: string;
  /** A session that the page tries to delete. */
  session: string;
}

/**
 * Script of the page: it sends requests to each endpoint of each target and reports the results that a page can see.
 */
const SCRIPT = `
// Time: the limit of a request that is never answered.
const waiting = 30_000;
const within = (work) => Promise.race([work, new Promise((resolve) => setTimeout(resolve, waiting, "silent"))]).catch(() => "failed");
const request = (url, init) => within(fetch(url, init).then((answer) => answer.type === "opaque" ? "opaque" : String(answer.status)));
const json = { "content-type": "application/json" };
const endpoints = ({ tag, origin, session }) => {
  const at = (path, endpoint) => origin + path + "?tag=" + tag + "/" + endpoint;
  const initialize = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });
  const run = JSON.stringify({ message: tag });
  return {
    "run": () => request(at("/api/run", "run"), { method: "POST", headers: json, body: run }),
    "run, plain text": () => request(at("/api/run", "run, plain text"), { method: "POST", mode: "no-cors", body: run }),
    "run, form": () => within(new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.name = tag;
      document.body.appendChild(frame);
      const form = document.body.appendChild(document.createElement("form"));
      Object.assign(form, { method: "POST", enctype: "text/plain", action: at("/api/run", "run, form"), target: tag });
      const field = form.appendChild(document.createElement("input"));
      field.name = '{"message":"' + tag + '","x":"';
      field.value = '"}';
      frame.onload = () => resolve("opaque");
      form.submit();
    })),
    "sessions": () => request(at("/api/sessions", "sessions")),
    "sessions, image": () => request(at("/api/sessions", "sessions, image"), { mode: "no-cors", referrerPolicy: "no-referrer" }),
    "delete": () => request(at("/api/sessions/" + session, "delete"), { method: "DELETE" }),
    "acp initialize": () => request(at("/acp", "acp initialize"), { method: "POST", headers: json, body: initialize }),
    "acp initialize, plain text": () => request(at("/acp", "acp initialize, plain text"), { method: "POST", mode: "no-cors", body: initialize }),
    "acp stream": () => within(new Promise((resolve) => {
      const source = new EventSource(at("/acp", "acp stream"));
      source.onopen = () => resolve("open");
      source.onerror = () => { source.close(); resolve("failed"); };
    })),
    "acp socket": () => within(new Promise((resolve) => {
      const socket = new WebSocket(at("/acp", "acp socket").replace("http", "ws"));
      socket.onopen = () => resolve("open");
      socket.onerror = () => resolve("failed");
    })),
    "plugin": () => request(at("/hooks", "plugin"), { method: "POST", mode: "no-cors", body: "x" }),
  };
};
addEventListener("load", async () => {
  const seen = {};
  await Promise.all(targets.map(async (target) => {
    for (const [endpoint, send] of Object.entries(endpoints(target))) seen[target.tag + "/" + endpoint] = await send();
  }));
  await fetch("/report", { method: "POST", body: JSON.stringify({ seen }) });
  if (next) location.href = next;
});
`;

interface Site {
  port: number;
  /** Result that the page saw, by target tag and endpoint. */
  seen: Promise<Record<string, string>>;
}

/**
 * Serves a page in a namespace. The page sends requests to the targets when a browser opens it, and then navigates to
 * `next`.
 */
async function serveSite(
  hooks: Hooks,
  place: readonly string[],
  targets: readonly Target[],
  next?: string,
): Promise<Site> {
  const page = `<!doctype html><title>page</title><body><script>const targets = ${JSON.stringify(targets)}, next = ${JSON.stringify(next ?? "")};${SCRIPT}</script>`;
  const [command = "", ...args] = [...place, process.execPath, SITE, Buffer.from(page).toString("base64")];
  const child = spawn(command, args, { stdio: "pipe" });
  const closed = once(child, "close");
  hooks.after(async () => {
    child.stdin.end();
    await closed;
  });
  let text = "";
  const lines: ((line: string) => void)[] = [];
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const receivedLines = (text + chunk).split("\n");
    text = receivedLines.pop() ?? "";
    for (const line of receivedLines) lines.shift()?.(line);
  });
  const line = () => new Promise<string>((resolve) => lines.push(resolve));
  const first = line();
  const report = line();
  const { port } = JSON.parse(await first) as { port: number };
  return { port, seen: report.then((sent) => (JSON.parse(sent) as { seen: Record<string, string> }).seen) };
}

async function curl(place: readonly string[], ...args: string[]): Promise<{ status: number; body: string }> {
  const [command = "", ...commandArguments] = [...place, "curl", "-s", "-g", "-w", "\n%{http_code}", ...args];
  const child = spawn(command, commandArguments, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(child, "close");
  const cut = text.lastIndexOf("\n");
  return { status: Number(text.slice(cut + 1)), body: text.slice(0, cut) };
}

/** A server in a namespace with all transports enabled: HTTP, ACP and a third-party mount. */
async function serve(hooks: Hooks, { first: serverPlace }: Namespaces, bound: Bound): Promise<GantryServer> {
  return startServer(hooks, {
    args: ["serve", "--port", "0", "--host", bound, ...(bound === "0.0.0.0" ? ["--insecure"] : [])],
    config: { server: { transports: ["koa-http-api", "acp-http-sse-ws", HOOKS] } },
    through: serverPlace,
    env: { NODE_OPTIONS: `--import ${OBSERVER}` },
  });
}

interface Answered {
  method: string;
  url: string;
  status: number;
}

/** The server's responses to requests of pages. */
function answered(server: GantryServer): (Answered & { tag: string })[] {
  return [...server.stderr.matchAll(/^ANSWERED (.*)$/gm)]
    .map(([, text = ""]) => JSON.parse(text) as Answered)
    .flatMap((response) => {
      const tag = new URL(response.url, "http://x").searchParams.get("tag");
      return tag === null || response.method === "OPTIONS" ? [] : [{ ...response, tag }];
    });
}

async function sessions(place: readonly string[], server: GantryServer): Promise<string[]> {
  const { body } = await curl(place, new URL("/api/sessions?size=100", reach(server)).href);
  return (JSON.parse(body) as { sessions: { id: string }[] }).sessions.map(({ id }) => id);
}

/** Creates a session with curl. Resolves with its id. */
async function newSession(place: readonly string[], server: GantryServer): Promise<string> {
  const before = await sessions(place, server);
  const { status } = await curl(place, new URL("/api/run", reach(server)).href, "-d", '{"message":"hello"}');
  assert.equal(status, 200, "curl is served");
  return (await sessions(place, server)).find((id) => !before.includes(id)) ?? "";
}

/** The server's URL from its own machine. */
function reach(server: GantryServer): string {
  return server.url.replace("0.0.0.0", "127.0.0.1");
}

const BROWSERS: readonly BrowserName[] = ["firefox", "chromium"];
const BOUNDS = Object.keys(SPELLINGS) as Bound[];
/** Results for a page on this machine. Its plain text is not JSON, and ACP accepts pages only over WebSockets. */
const LOCAL_RESULTS = { run: "200", sessions: "200", delete: "200", "acp socket": "open" };

it("pages of other sites get no access to any endpoint by any spelling of its address; local pages and curl do", async (t) => {
  const browsers = BROWSERS.filter((name) => findBrowser(name) !== undefined);
  if (browsers.length === 0) return t.skip("no firefox and no chromium here");
  for (const name of BROWSERS) if (!browsers.includes(name)) t.diagnostic(`skipped: no ${name} here`);
  const spaces = await twoNamespaces(t);
  if (typeof spaces === "string") return t.skip(`no network namespaces here: ${spaces}`);
  const { first: serverPlace, second: sitePlace } = spaces;
  const servers = new Map(
    await Promise.all(BOUNDS.map(async (bound) => [bound, await serve(t, spaces, bound)] as const)),
  );
  const portOf = (bound: Bound) => new URL(servers.get(bound)!.url).port;
  const keptSessions = new Map(
    await Promise.all(
      [...servers].map(async ([bound, server]) => [bound, await newSession(serverPlace, server)] as const),
    ),
  );
  const deletableSessions = new Map<BrowserName, string>();
  for (const browser of browsers)
    deletableSessions.set(browser, await newSession(serverPlace, servers.get("127.0.0.1")!));

  const table: string[] = [];
  const faults: string[] = [];
  const visit = async (browser: BrowserName) => {
    const target = (siteKind: string, bound: Bound, spelling: string, session: string): Target => ({
      tag: `${browser}|${siteKind}|${bound}|${spelling}`,
      bound,
      origin: `http://${spelling}:${portOf(bound)}`,
      session,
    });
    const foreign = BOUNDS.flatMap((bound) =>
      SPELLINGS[bound].map((spelling) => target("foreign", bound, spelling, keptSessions.get(bound)!)),
    );
    // The page's host is `localhost`; to a browser, 127.0.0.1 is another site.
    const local = ["127.0.0.1", "localhost"].map((spelling, i) =>
      target("loopback", "127.0.0.1", spelling, i === 0 ? deletableSessions.get(browser)! : "none"),
    );
    const second = await serveSite(t, serverPlace, local);
    const first = await serveSite(t, sitePlace, foreign, `http://localhost:${second.port}/`);
    const { ended } = await openBrowser(t, browser, `http://${spaces.secondAddress}:${first.port}/`, {
      through: serverPlace,
      loopbackName: REBOUND,
    });
    const [foreignResults, localResults] = await Promise.race([Promise.all([first.seen, second.seen]), ended]);
    const seen = { ...foreignResults, ...localResults };
    for (const { tag, bound, session } of [...foreign, ...local]) {
      const responses = answered(servers.get(bound)!);
      const row = Object.entries(seen)
        .filter(([key]) => key.startsWith(`${tag}/`))
        .map(([key, result]) => {
          const endpoint = key.slice(tag.length + 1);
          const statuses = responses.filter((response) => response.tag === key).map(({ status }) => status);
          if (
            foreign.some((target) => target.tag === tag)
              ? hasAccess(endpoint, bound, result, statuses)
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
  await Promise.all(browsers.map(visit));
  for (const line of table.sort()) t.diagnostic(line);
  assert.deepEqual(faults, []);
  for (const [bound, server] of servers) {
    const remainingSessions = await sessions(serverPlace, server);
    assert.ok(remainingSessions.includes(keptSessions.get(bound)!), `${bound}: nothing was deleted`);
    // Sessions that the pages of this machine started.
    const startedCount = bound === "127.0.0.1" ? 2 * browsers.length : 0;
    assert.equal(remainingSessions.length, 1 + startedCount, `${bound}: nothing else ran`);
  }
});

/** Whether a foreign page got access, by what it saw and by the server's responses. */
function hasAccess(endpoint: string, bound: Bound, result: string, statuses: readonly number[]): boolean {
  // A request that changes nothing and whose response the page cannot read gives no access. The server cannot
  // distinguish it from a followed link.
  if (endpoint === "sessions, image" && bound === "0.0.0.0") return result === "200";
  return result === "open" || result === "200" || statuses.some((status) => status !== 403);
}

/** Whether a page of this machine was refused. */
function isRejected(endpoint: string, result: string, session: string): boolean {
  if (!(endpoint in LOCAL_RESULTS) || (endpoint === "delete" && session === "none")) return false;
  return result !== LOCAL_RESULTS[endpoint as keyof typeof LOCAL_RESULTS];
}
