import assert from "node:assert/strict";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type { McpServerHttp } from "gantry/plugin";
import { McpServers, type LoginOptions } from "gantry/adapters/mcp-tools";
import { silentLogger } from "../../../src/base/log.js";
import { loadConfigWithFlags } from "../../../src/cli/command.js";
import { ConfigMcpServerFactory, getConfiguredServers, getLoginFile } from "../../../src/serve/mcp-servers.js";
import { createRecordingLogger, openToolSource } from "../../helpers/mcp-servers.js";
import { startOAuthMcpServer, type OAuthMcpServer } from "../../helpers/oauth-mcp-server.js";
import { runGantry, spawnGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { waitFor } from "../../helpers/wait.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const LOGIN_REQUIRED = /the server needs a login: run "gantry mcp login office"/;

function assertNoSecrets(server: OAuthMcpServer, ...texts: readonly unknown[]): void {
  for (const secret of server.secrets()) assert.ok(!JSON.stringify(texts).includes(secret), "a token is shown");
}

/** Logs in as a browser would: follows the redirect of the authorization server, which asks no person. */
const authorize: LoginOptions["authorize"] = async (url) => {
  const response = await fetch(url, { redirect: "manual" });
  return new URL(response.headers.get("location") ?? "").searchParams;
};

async function logIn(t: TestContext) {
  const [oauthServer, home] = [await startOAuthMcpServer(t), await tempDir(t)];
  const server: McpServerHttp = { name: "office", url: oauthServer.url, headers: {} };
  const loginFile = getLoginFile(home.path, "office");
  const logger = createRecordingLogger();
  const servers = new McpServers({ logger });
  const options = { redirectUrl: "http://127.0.0.1:1/callback", authorize };
  const { hasLoggedIn, tools } = await servers.logIn(server, loginFile, options, new AbortController().signal);
  assert.ok(hasLoggedIn);
  assert.deepEqual(
    tools.map(({ name }) => name),
    ["whoami"],
  );
  const open = async (client = servers) =>
    (await openToolSource(t, client.source(server, { loginFile }), "/")).tools[0]!;
  const whoami = async (tool: Awaited<ReturnType<typeof open>>) =>
    (await callTool(tool, {}, createToolContext("/"))).text.replace("Bearer ", "");
  return { oauthServer, server, loginFile, logger, servers, open, whoami };
}

describe("gantry mcp login", () => {
  it("logs in at an authorization server, stores the tokens with mode 0600, and gantry mcp logout deletes them", async (t) => {
    const [server, home] = [await startOAuthMcpServer(t), (await tempDir(t)).path];
    const config = { mcp_servers: { office: { url: server.url, headers: { "X-Team": "blue-team" } } } };
    const login = await spawnGantry(t, { args: ["mcp", "login", "office"], home, config });
    const [, address = ""] = await login.waitForOutput(/Log in at this address:\n(\S+)\n/, "stderr");
    const url = new URL(address);
    assert.equal(url.searchParams.get("code_challenge_method"), "S256");
    assert.equal(url.searchParams.get("resource"), server.url);
    const callbackUrl = new URL(url.searchParams.get("redirect_uri") ?? "");
    assert.equal(callbackUrl.hostname, "127.0.0.1");
    callbackUrl.search = "?code=stolen&state=wrong";
    assert.equal((await fetch(callbackUrl)).status, 400);
    const page = await fetch(url);
    assert.equal(page.status, 200);
    assert.match(await page.text(), /You can close this page/);
    assert.equal((await login.waitForExit()).code, 0, login.stderr);
    assert.match(login.stderr, /logged in to office: 1 tool\n$/);

    const file = join(home, "mcp-logins/office.json");
    assert.deepEqual(await readdir(join(home, "mcp-logins")), ["office.json"]);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.equal((await stat(join(home, "mcp-logins"))).mode & 0o777, 0o700);
    assert.match(await readFile(file, "utf8"), new RegExp(server.provider.issued[0]?.access_token ?? "none"));
    // Headers of the config are for the MCP server only.
    assert.ok(!server.authorizationHeaders.includes("blue-team"));
    const list = await runGantry(t, ["mcp", "list"], { home });
    assert.equal(list.code, 0, list.stderr);
    assert.match(list.stdout, /office +ready +1 +0 +office__whoami/);

    const logout = await runGantry(t, ["mcp", "logout", "office"], { home });
    assert.deepEqual([logout.code, logout.stderr], [0, "logged out of office\n"]);
    const after = await runGantry(t, ["mcp", "list"], { home });
    assert.match(after.stderr, LOGIN_REQUIRED);
    assertNoSecrets(server, list, login.stdout, login.stderr, logout, after);
  });

  it("reports servers without a login, unknown names and a refused authorization", async (t) => {
    const home = (await tempDir(t)).path;
    const server = await startOAuthMcpServer(t);
    const config = {
      mcp_servers: {
        office: { url: server.url },
        keyed: { url: server.url, headers: { authorization: "Bearer 1234567" } },
      },
    };
    const fail = async (...args: string[]) => {
      const { code, stderr } = await runGantry(t, ["mcp", ...args], { home, config });
      assert.equal(code, 1);
      return stderr;
    };
    assert.match(
      await fail("login", "nobody"),
      /no server nobody in mcp_servers; expected one of the servers office\n$/,
    );
    assert.match(await fail("login", "keyed"), /mcp_servers\.keyed\.headers: Authorization replaces a login/);
    assert.match(await fail("logout", "../config"), /mcp logout: expected the name of a server\n$/);
    const login = await spawnGantry(t, { args: ["mcp", "login", "office"], home, config });
    const [, address = ""] = await login.waitForOutput(/Log in at this address:\n(\S+)\n/, "stderr");
    const { searchParams } = new URL(address);
    const state = searchParams.get("state") ?? "";
    await fetch(`${searchParams.get("redirect_uri")}?error=access_denied&error_description=No%1B[31m.&state=${state}`);
    assert.equal((await login.waitForExit()).code, 1);
    assert.match(login.stderr, /office: the login failed: access_denied: No\[31m\.\n$/);
  });
});

describe("the login to an MCP server", () => {
  it("is refreshed once for all connections and processes when the access token ends", async (t) => {
    const { oauthServer, open, whoami, logger } = await logIn(t);
    // The second client stands for another process.
    const otherTool = await open(new McpServers());
    const tool = await open();
    assert.equal(await whoami(tool), oauthServer.provider.issued[0]?.access_token);
    oauthServer.provider.endAccessTokens();
    const tokens = await Promise.all([tool, otherTool, tool, tool].map(whoami));
    assert.deepEqual(new Set(tokens), new Set([oauthServer.provider.issued[1]?.access_token]));
    assert.deepEqual(oauthServer.provider.refreshes, { accepted: 1, rejected: 0 });

    oauthServer.provider.endAccessTokens();
    oauthServer.provider.endRefreshTokens();
    await assert.rejects(whoami(tool), { message: /office: the server needs a login: run "gantry mcp login office"/ });
    assertNoSecrets(oauthServer, logger.lines);
  });

  it("is refreshed once by three processes at the same time, and survives a process that died while it refreshed", async (t) => {
    const { oauthServer, loginFile } = await logIn(t);
    const home = loginFile.replace(/\/mcp-logins\/.*/, "");
    const { provider } = oauthServer;
    provider.endAccessTokens();
    // The first refresh waits until all processes know that the token has ended.
    provider.beforeRefresh = () =>
      waitFor("three rejected requests", () => provider.rejectedRequests >= 3 || undefined);
    const config = { mcp_servers: { office: { url: oauthServer.url } } };
    const listServers = () => runGantry(t, ["mcp", "list"], { home, config });
    for (const { code, stderr } of await Promise.all([listServers(), listServers(), listServers()]))
      assert.equal(code, 0, stderr);
    assert.deepEqual(provider.refreshes, { accepted: 1, rejected: 0 });

    provider.endAccessTokens();
    const hasBegun = new Promise<void>((resolve) => {
      provider.beforeRefresh = () => new Promise(() => resolve());
    });
    const killedProcess = spawnGantry(t, { args: ["mcp", "list"], home });
    await hasBegun;
    await (await killedProcess).stop("SIGKILL");
    provider.beforeRefresh = () => Promise.resolve();
    const { code, stderr } = await listServers();
    assert.equal(code, 0, stderr);
    assert.deepEqual(provider.refreshes, { accepted: 2, rejected: 0 });
  });

  it("is used by the next run at once, without the delay after a failure", async (t) => {
    const [oauthServer, home] = [await startOAuthMcpServer(t), await tempDir(t)];
    const server: McpServerHttp = { name: "office", url: oauthServer.url, headers: {} };
    const loginFile = getLoginFile(home.path, "office");
    const servers = new McpServers();
    const source = servers.source(server, { loginFile });
    const signal = new AbortController().signal;
    const open = () => source.open({ sessionId: "s", projectDir: "/" }, signal);
    for (let i = 0; i < 3; i++) await assert.rejects(open(), { message: LOGIN_REQUIRED });
    await assert.rejects(open(), { message: /next attempt in/ });
    assert.equal((await servers.state(server, { loginFile })).state, "needs_login");
    // Another process.
    await new McpServers().logIn(server, loginFile, { redirectUrl: "http://127.0.0.1:1/callback", authorize }, signal);
    const { close } = await open();
    const state = { state: "connected", reason: "", toolCount: 1, hasLogin: true };
    assert.deepEqual(await servers.state(server, { loginFile }), state);
    await close();
    assert.equal((await servers.state(server, { loginFile })).state, "idle");
    assert.equal(await servers.logOut(server, loginFile), true);
    assert.equal(await servers.logOut(server, loginFile), false);
    const { state: stateAfterLogout, hasLogin } = await servers.state(server, { loginFile });
    assert.deepEqual([stateAfterLogout, hasLogin], ["needs_login", false]);
  });

  it("is not used for another address, nor for a server that a client names", async (t) => {
    const { oauthServer, server, loginFile, servers, logger } = await logIn(t);
    const clientServer = servers.source(server);
    const session = { sessionId: "s", projectDir: "/" };
    const signal = new AbortController().signal;
    await assert.rejects(clientServer.open(session, signal), { message: /HTTP status 401: set the authentication/ });
    const otherServer = await startOAuthMcpServer(t);
    const movedSource = servers.source({ ...server, url: otherServer.url }, { loginFile });
    await assert.rejects(movedSource.open(session, signal), { message: LOGIN_REQUIRED });
    assertNoSecrets(oauthServer, logger.lines, otherServer.authorizationHeaders);
  });

  it("is removed from results of tools, also after a refresh", async (t) => {
    const { oauthServer, loginFile } = await logIn(t);
    const home = loginFile.replace(/\/mcp-logins\/.*/, "");
    const folder = await tempDir(t, {
      "config.json": JSON.stringify({ mcp_servers: { office: { url: oauthServer.url } } }),
    });
    const { loadedConfig } = await loadConfigWithFlags({ config: folder.at("config.json") });
    const options = { loadedConfig, logger: silentLogger, env: {}, programRejection: undefined };
    const [source] = new ConfigMcpServerFactory(getConfiguredServers(loadedConfig, home), options).sources;
    const { tools } = await openToolSource(t, source!, "/");
    assert.equal((await callTool(tools[0]!, {}, createToolContext("/"))).text, "Bearer [redacted]");
    oauthServer.provider.endAccessTokens();
    assert.equal((await callTool(tools[0]!, {}, createToolContext("/"))).text, "Bearer [redacted]");
    assert.equal(oauthServer.provider.refreshes.accepted, 1);
  });
});
