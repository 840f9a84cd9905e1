import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { describe, it } from "node:test";
import { startForeignServer, NO_OTHER_USER } from "../../helpers/other-user.js";
import { sendRawRequest } from "../../helpers/raw-http.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const SECRET = "s3cret-of-the-test";
const REQUIRED_HEADERS_CONFIG = { server: { port: 0, required_headers: { "X-Key": SECRET } } };

describe("gantry console", () => {
  it("prints the console address for --url and for --port", async (t) => {
    const server = await startServer(t);
    const { code, stdout, stderr } = await runGantry(t, ["console", "--url", server.url]);
    assert.deepEqual([code, stdout], [0, `${server.url}/console\n`], stderr);
    const { port } = new URL(server.url);
    const portRun = await runGantry(t, ["console", "--port", port]);
    assert.deepEqual([portRun.code, portRun.stdout], [0, `${server.url}/console\n`], portRun.stderr);
  });

  it("prints a one-time link that logs in with the required headers, and prints or logs no secret", async (t) => {
    const server = await startServer(t, { config: REQUIRED_HEADERS_CONFIG });
    const { code, stdout, stderr } = await runGantry(t, ["console", "--url", server.url], { home: server.home });
    assert.equal(code, 0, stderr);
    const [, linkCode] = /^http:\/\/127\.0\.0\.1:\d+\/console#code=([\w-]{22})\n$/.exec(stdout) ?? [];
    assert.ok(linkCode, stdout);
    assert.match(stderr, /once, for one minute/);
    const loginResponse = await sendRawRequest(server.url, "/console/login", {
      body: JSON.stringify({ code: linkCode }),
    });
    assert.deepEqual(loginResponse.json(), { headers: { "X-Key": SECRET } });
    await server.stop();
    assert.ok(![stdout, stderr, server.stdout, server.stderr].some((text) => text.includes(SECRET)));
    assert.ok(![server.stdout, server.stderr, stderr].some((text) => text.includes(linkCode)));
  });

  it("uses required_headers that only the koa-http-api transport sets", async (t) => {
    const apiTransport = { transport: "koa-http-api", required_headers: { "X-Key": SECRET } };
    const server = await startServer(t, { config: { server: { port: 0, transports: [apiTransport, "web-console"] } } });
    const { stdout, stderr } = await runGantry(t, ["console", "--url", server.url], { home: server.home });
    assert.match(stdout, /#code=/, stderr);
    assert.equal((await server.fetch("/console/links", { method: "POST" })).status, 401);
  });

  it("opens the address with xdg-open, and prints the address if xdg-open fails or is missing", async (t) => {
    const server = await startServer(t);
    const folder = await tempDir(t, {
      "xdg-open": `#!/bin/sh\nprintf %s "$1" > "$(dirname "$0")/opened"\nexit "$(cat "$(dirname "$0")/code")"\n`,
      code: "0",
    });
    await chmod(folder.at("xdg-open"), 0o755);
    const env = { DISPLAY: ":0", PATH: `${folder.path}:${process.env.PATH ?? ""}` };
    const openRun = await runGantry(t, ["console", "--url", server.url], { env });
    assert.deepEqual([openRun.code, openRun.stdout], [0, ""], openRun.stderr);
    assert.match(openRun.stderr, /^opened http:\/\/127\.0\.0\.1:\d+\/console$/m);
    assert.equal(await folder.read("opened"), `${server.url}/console`);
    await folder.write({ code: "3" });
    const failedRun = await runGantry(t, ["console", "--url", server.url], { env });
    assert.deepEqual([failedRun.code, failedRun.stdout], [0, `${server.url}/console\n`]);
    const emptyFolder = await tempDir(t);
    const missingProgramRun = await runGantry(t, ["console", "--url", server.url], {
      env: { ...env, PATH: emptyFolder.path },
    });
    assert.equal(missingProgramRun.stdout, `${server.url}/console\n`);
  });

  it(
    "opens a single-use redirect to the login link; other paths and other users get 403",
    { skip: process.platform !== "linux" && "only Linux identifies the users of connections" },
    async (t) => {
      const server = await startServer(t, { config: REQUIRED_HEADERS_CONFIG });
      const folder = await tempDir(t, {
        "xdg-open": `#!/bin/sh\nprintf %s "$1" > "$(dirname "$0")/opened"\nexec "${process.execPath}" "$(dirname "$0")/browser.cjs" "$1"\n`,
        "browser.cjs": `
        const visit = (address) => fetch(address, { redirect: "manual" });
        (async () => {
          const otherPathResponse = await visit(new URL("/x", process.argv[2]));
          if (process.getuid() === 0) {
            const program = 'fetch(process.argv[1], { redirect: "manual" }).then(({ status }) => process.exit(status === 403 ? 0 : 1))';
            const options = { uid: 65534, cwd: "/" };
            require("node:child_process").execFileSync(process.execPath, ["-e", program, process.argv[2]], options);
          }
          const { status, headers } = await visit(process.argv[2]);
          const secondResponse = await visit(process.argv[2]).catch(() => ({ status: 0 }));
          require("node:fs").writeFileSync(__dirname + "/visits", JSON.stringify([otherPathResponse.status, status, headers.get("location"), secondResponse.status]));
        })();`,
      });
      await chmod(folder.at("xdg-open"), 0o755);
      const env = { DISPLAY: ":0", PATH: `${folder.path}:${process.env.PATH ?? ""}` };
      const redirectRun = await runGantry(t, ["console", "--url", server.url], { home: server.home, env });
      assert.deepEqual([redirectRun.code, redirectRun.stdout], [0, ""], redirectRun.stderr);
      assert.match(await folder.read("opened"), /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}$/);
      // gantry has already exited when the browser visits the page.
      const visits = await folder.readWhenWritten("visits");
      const [otherPathStatus, status, location, secondStatus] = JSON.parse(visits) as [number, number, string, number];
      assert.deepEqual([otherPathStatus, status], [403, 302]);
      assert.ok(secondStatus === 403 || secondStatus === 0, String(secondStatus));
      const [, code] = /^http:\/\/127\.0\.0\.1:\d+\/console#code=([\w-]{22})$/.exec(location) ?? [];
      const redirectedLogin = await sendRawRequest(server.url, "/console/login", { body: JSON.stringify({ code }) });
      assert.deepEqual(redirectedLogin.json(), { headers: { "X-Key": SECRET } });
    },
  );

  it("sends no request to a server of another user unless --any-user is set", { skip: NO_OTHER_USER }, async (t) => {
    const { url, readRequests } = await startForeignServer(t);
    for (const config of [REQUIRED_HEADERS_CONFIG, {}]) {
      const home = await tempDir(t, { "config.json": JSON.stringify(config) });
      const { code, stdout, stderr } = await runGantry(t, ["console", "--url", url], { home: home.path });
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(
        stderr,
        /the server at http:\S+ belongs to another user \(uid 65534\): nothing was sent.*--any-user/,
      );
      assert.equal(await readRequests(), "");
    }
    const home = await tempDir(t, { "config.json": JSON.stringify(REQUIRED_HEADERS_CONFIG) });
    const { stdout } = await runGantry(t, ["console", "--url", url, "--any-user"], { home: home.path });
    assert.equal(stdout, `${url}/console\n`);
    assert.match(await readRequests(), /^POST \/console\/links s3cret-of-the-test$/m);
  });

  it("reports each failure in one line on stderr with exit code 1", async (t) => {
    const lockedServer = await startServer(t, { config: REQUIRED_HEADERS_CONFIG });
    const noConsoleServer = await startServer(t, { config: { server: { port: 0, console: false } } });
    // The port is below the range of automatically assigned ports, so that no other test listens on it.
    const freePort = 10_000 + (process.pid % 20_000);
    for (const [args, errorPattern] of [
      [
        ["--port", String(freePort)],
        /no server at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\): run gantry serve in the project folder/,
      ],
      [["--url", lockedServer.url], /rejected the headers of server\.required_headers in .*config\.json/],
      [["--url", noConsoleServer.url], /no console at http.*: server\.console is false/],
      [["--url", "ftp://127.0.0.1"], /--url: expected the address of a server/],
      [["--url", "http://me:secret@127.0.0.1"], /--url: expected the address of a server/],
      [["--port", "0"], /server\.port is 0/],
      [["now"], /unexpected argument now/],
    ] as const) {
      const { code, stdout, stderr } = await runGantry(t, ["console", ...args]);
      assert.deepEqual([code, stdout], [1, ""], stderr);
      assert.match(stderr, errorPattern);
      assert.equal(stderr.trim().split("\n").length, 1, stderr);
    }
  });
});

describe("gantry serve", () => {
  it("logs the console address on stderr, not on stdout, and redirects / to /console", async (t) => {
    const server = await startServer(t);
    await server.waitForOutput(/ info console on (\S+)\n$/, "stderr");
    assert.ok(server.stderr.includes(` info console on ${server.url}/console\n`), server.stderr);
    assert.ok(server.stderr.includes(` info sessions in ${server.home}/sessions.db\n`), server.stderr);
    assert.match(server.stdout, /^http server listening on \S+\n$/);
    const rootResponse = await server.fetch("/", { headers: { accept: "text/html" }, redirect: "manual" });
    assert.deepEqual([rootResponse.status, rootResponse.headers.get("location")], [302, "/console"]);
  });

  it("logs that gantry console opens the console if headers are required", async (t) => {
    const server = await startServer(t, { config: REQUIRED_HEADERS_CONFIG });
    await server.waitForOutput(/console on \S+ \(gantry console opens it\)$/m, "stderr");
    assert.ok(!server.stderr.includes(SECRET));
  });

  it("serves no console with server.console: false or with transports from flags", async (t) => {
    for (const [config, args] of [
      [{ server: { port: 0, console: false } }, ["serve"]],
      [{ server: { port: 0, console: false, transports: ["koa-http-api", "web-console"] } }, ["serve"]],
      [{ server: { port: 0 } }, ["serve", "--transport", "koa-http-api"]],
      [{ server: { port: 0 } }, ["serve", "--acp"]],
    ] as const) {
      const server = await startServer(t, { config, args });
      await server.waitForOutput(/ info sessions in /, "stderr");
      const pageResponse = await server.fetch("/", { headers: { accept: "text/html" }, redirect: "manual" });
      assert.notEqual(pageResponse.status, 302);
      assert.notEqual((await server.fetch("/console")).status, 200);
      await server.stop();
      assert.ok(!server.stderr.includes("console on"), server.stderr);
    }
  });
});
