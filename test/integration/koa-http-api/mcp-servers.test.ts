import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { GantryClient, McpServersClient } from "gantry/client";
import { createFaultyStdioServer } from "../../helpers/mcp-servers.js";
import { startOAuthMcpServer } from "../../helpers/oauth-mcp-server.js";
import { sendRawRequest } from "../../helpers/raw-http.js";
import { createServerConfig, startModelServer } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

/** A real server with an MCP server that needs a login. */
async function startOffice(t: Hooks, serverConfig: object = {}) {
  const [office, models] = [await startOAuthMcpServer(t), await startModelServer(t)];
  const { command, args } = createFaultyStdioServer("office");
  const server = await startServer(t, {
    config: createServerConfig(models, {
      server: { port: 0, ...serverConfig },
      mcp_servers: {
        office: { url: office.url },
        program: { command, args },
        keyed: { url: office.url, headers: { Authorization: "Bearer 1234567" } },
      },
    }),
  });
  const options = { url: server.url, personHeaders: () => server.personHeaders };
  return { office, server, client: new GantryClient(options), mcpServers: new McpServersClient(options) };
}

/** Headers of a browser that an authorization server redirects. */
const REDIRECT_HEADERS = {
  "sec-fetch-site": "cross-site",
  "sec-fetch-mode": "navigate",
  "sec-fetch-dest": "document",
  accept: "text/html",
};

/** Opens an address at the authorization server, which redirects at once. Returns the address of the redirect. */
async function authorize(url: string | null): Promise<URL> {
  const { headers } = await fetch(url!, { redirect: "manual" });
  return new URL(headers.get("location") ?? "");
}

describe("/api/mcp-servers", () => {
  it("logs in by the browser of a person, once for each state, and the next run has the tools at once", async (t) => {
    const { office, server, client, mcpServers } = await startOffice(t);
    const run = async () => client.run({ message: "hi" });
    // Three failures would delay the next attempt.
    for (let i = 0; i < 3; i++) await run();
    const [needsLogin, program] = await mcpServers.list();
    const status = { name: "office", transport: "http", reason: "", tools: null };
    assert.deepEqual({ ...needsLogin, reason: "" }, { ...status, state: "needs_login", login: "possible" });
    assert.match(needsLogin!.reason, /^the server needs a login: run "gantry mcp login office"/);
    assert.deepEqual([program!.transport, program!.state, program!.login], ["stdio", "connected", "none"]);

    const abandonedUrl = await mcpServers.logIn("office");
    const url = await mcpServers.logIn("office");
    const redirect = await authorize(url);
    assert.equal(redirect.origin, server.url);
    assert.equal(redirect.pathname, "/api/mcp-servers/callback");
    const open = (query: string, headers: Record<string, string> = REDIRECT_HEADERS) =>
      sendRawRequest(server.url, `/api/mcp-servers/callback${query}`, { headers });
    // Another page's code, without a state or with one of its own; a login that a newer one has replaced.
    for (const query of [
      "",
      "?code=stolen",
      `?code=stolen&state=${"x".repeat(32)}`,
      (await authorize(abandonedUrl)).search,
    ]) {
      const { status: code, text } = await open(query);
      assert.deepEqual([code, /finished, has expired or did not begin here/.test(text)], [400, true], query);
    }
    // A page that requests the address itself, in a frame or by script.
    const foreignPageHeaders: Record<string, string>[] = [
      { "sec-fetch-dest": "iframe" },
      { "sec-fetch-mode": "cors" },
      { origin: "https://evil.example" },
    ];
    for (const change of foreignPageHeaders)
      assert.equal((await open(redirect.search, { ...REDIRECT_HEADERS, ...change })).status, 403);
    assert.equal((await open(redirect.search, { ...REDIRECT_HEADERS, host: "evil.example" })).status, 403);
    const head = await sendRawRequest(server.url, redirect.pathname + redirect.search, { method: "HEAD" });
    assert.equal(head.status, 405);

    const page = await open(redirect.search);
    assert.deepEqual([page.status, page.headers["content-type"]], [200, "text/plain; charset=utf-8"]);
    assert.match(page.text, /^Logged in to office\. Close this page/);
    assert.equal((await open(redirect.search)).status, 400);
    const loggedIn = { ...status, state: "idle", tools: 1, login: "stored" };
    assert.deepEqual((await mcpServers.list())[0], loggedIn);
    await run();
    assert.deepEqual((await mcpServers.list())[0], { ...loggedIn, state: "connected" });
    assert.equal(await mcpServers.logOut("office"), true);
    assert.equal(await mcpServers.logOut("office"), false);
    assert.equal(existsSync(`${server.home}/mcp-logins/office.json`), false);
    const [loggedOut] = await mcpServers.list();
    assert.deepEqual([loggedOut!.state, loggedOut!.login], ["needs_login", "possible"]);
    for (const secret of office.secrets()) assert.ok(!(server.stdout + server.stderr + page.text).includes(secret));
    // An unfinished login does not keep the server from stopping.
    await mcpServers.logIn("office");
  });

  it("refuses requests of other pages and of programs without the token, and reports why a login fails", async (t) => {
    const { office, server, mcpServers } = await startOffice(t);
    const body = "{}";
    for (const headers of [
      { origin: "https://evil.example", ...server.personHeaders },
      { "sec-fetch-site": "cross-site", ...server.personHeaders },
      {},
    ])
      for (const action of ["login", "logout"]) {
        const { status } = await sendRawRequest(server.url, `/api/mcp-servers/office/${action}`, { body, headers });
        assert.equal(status, 403, JSON.stringify(headers));
      }
    assert.deepEqual(office.authorizationHeaders, []);
    const fail = async (name: string, serverUrl = server.url) => {
      const error = await mcpServers.logIn(name, { serverUrl }).catch((reason: unknown) => reason);
      const { status, code, message } = error as { status: number; code: string; message: string };
      return `${status} ${code}: ${message}`;
    };
    assert.match(await fail("nobody"), /^404 mcp_server_not_found: no MCP server of the config has this name/);
    assert.match(await fail("program"), /^409 login_not_possible: program: a program needs no login/);
    assert.match(await fail("keyed"), /^409 login_not_possible: keyed: its header Authorization replaces a login/);
    for (const url of [
      "http://gantry.example",
      "javascript:alert(1)",
      "x",
      "https://me@gantry.example",
      `${server.url}/?x`,
    ])
      assert.match(await fail("office", url), /^400 invalid_field: invalid field: server_url: expected an address/);
    // Behind a proxy.
    const proxyUrl = new URL((await mcpServers.logIn("office", { serverUrl: "https://gantry.example/agent/" }))!);
    const redirectUri = "https://gantry.example/agent/api/mcp-servers/callback";
    assert.equal(proxyUrl.searchParams.get("redirect_uri"), redirectUri);

    const { pathname, searchParams } = await authorize(await mcpServers.logIn("office"));
    const query = `?error=access_denied&error_description=No%3Cb%3E&state=${searchParams.get("state")}`;
    const denied = await sendRawRequest(server.url, pathname + query, { headers: REDIRECT_HEADERS });
    assert.deepEqual(
      [denied.status, denied.text],
      [502, "The login failed. office: the login failed: access_denied: No<b>\n"],
    );
  });

  it("accepts the redirect on a server with required headers, which a browser does not send", async (t) => {
    const requiredHeaders = { "X-Key": "the-key-of-this-test" };
    const { server } = await startOffice(t, { required_headers: requiredHeaders });
    const mcpServers = new McpServersClient({ url: server.url, headers: requiredHeaders });
    const { pathname, search } = await authorize(await mcpServers.logIn("office"));
    assert.equal((await sendRawRequest(server.url, "/api/mcp-servers", {})).status, 401);
    const { status, text } = await sendRawRequest(server.url, pathname + search, { headers: REDIRECT_HEADERS });
    assert.equal(status, 200, text);
    assert.equal((await mcpServers.list())[0]!.login, "stored");
  });
});
