import assert from "node:assert/strict";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { describe, it } from "node:test";
import { runGantry, startServer } from "./helpers/server.js";
import { tempDir } from "./helpers/temp.js";

/** One line on stderr, nothing on stdout, exit code 1. */
function assertRefused(run: { code: number | null; stdout: string; stderr: string }, pattern: RegExp): void {
  assert.equal(run.code, 1, run.stderr);
  assert.equal(run.stdout, "");
  assert.match(run.stderr, pattern);
  assert.equal(run.stderr.trim().split("\n").length, 1, run.stderr);
}

describe("gantry", () => {
  it("prints help and version", async (t) => {
    const help = await runGantry(t, ["--help"]);
    assert.equal(help.code, 0);
    for (const flag of [
      "--host",
      "--port",
      "--config",
      "--transport",
      "--session-driver",
      "--insecure",
      "--help",
      "--version",
      "--acp",
      "--stdio",
    ]) {
      assert.ok(help.stdout.includes(flag), flag);
    }
    const { version } = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    assert.equal((await runGantry(t, ["--version"])).stdout.trim(), version);
  });

  it("refuses what it does not know", async (t) => {
    assertRefused(await runGantry(t, ["fly"]), /unknown command fly/);
    assertRefused(await runGantry(t, ["serve", "--stdio"]), /--stdio needs --acp/);
    assertRefused(
      await runGantry(t, ["serve", "--port", "http"]),
      /--port: expected a whole number from 0 to 65535, got http/,
    );
    const unknown = await runGantry(t, ["serve", "--prot", "1"]);
    assert.notEqual(unknown.code, 0);
    assert.match(unknown.stderr + unknown.stdout, /--prot/);
  });
});

describe("gantry serve cannot start", () => {
  it("with a config that is wrong", async (t) => {
    const home = await tempDir(t, { "config.json": '{"server":{"port":"x"}}' });
    assertRefused(
      await runGantry(t, ["serve"], { home: home.path }),
      /^gantry: .*config\.json: server\.port: expected a whole number from 0 to 65535, got "x"$/m,
    );
    assertRefused(
      await runGantry(t, ["serve", "--config", home.at("none.json")]),
      /none\.json: cannot be read \(ENOENT\)/,
    );
  });

  it("with an adapter that is not there, or is none, or is of another kind", async (t) => {
    const folder = await tempDir(t, { "none.mjs": "export default 5;", "throws.mjs": "throw new Error('at import');" });
    const home = folder.path;
    const run = (config: object) =>
      runGantry(t, ["serve", "--port", "0"], { home, config: config as Record<string, unknown> });
    assertRefused(
      await run({ session: { driver: "no-such-package" } }),
      /session\.driver: unknown session-driver no-such-package: expected sqlite, json, a package/,
    );
    assertRefused(await run({ session: { driver: "./missing.mjs" } }), /session\.driver: there is no file/);
    assertRefused(
      await run({ server: { transports: ["./none.mjs"] } }),
      /server\.transports\[0\]: .*no gantry adapter/,
    );
    assertRefused(
      await run({ server: { transports: ["./throws.mjs"] } }),
      /throws\.mjs could not be loaded: at import/,
    );
    assertRefused(await run({ session: { driver: "sqlite", pth: "x" } }), /session.*pth/);
  });

  it("on a port in use", async (t) => {
    const taken = createServer();
    taken.listen(0, "127.0.0.1");
    await once(taken, "listening");
    t.after(() => void taken.close());
    const { port } = taken.address() as AddressInfo;
    assertRefused(
      await runGantry(t, ["serve", "--port", String(port)]),
      new RegExp(`127\\.0\\.0\\.1.*${port}.*in use`),
    );
  });

  it("beyond loopback without authentication, unless told to", async (t) => {
    assertRefused(await runGantry(t, ["serve", "--port", "0", "--host", "0.0.0.0"]), /required_headers.*--insecure/);
    const server = await startServer(t, { args: ["serve", "--port", "0", "--host", "0.0.0.0", "--insecure"] });
    assert.match(server.stdout, /^http server listening on http:\/\/0\.0\.0\.0:\d+\n$/);
    assert.match(server.stderr, /no authentication: whoever can reach http:\/\/0\.0\.0\.0/);
  });

  it("with a store that is none, which is left untouched", async (t) => {
    const home = await tempDir(t, {
      "sessions.db": "this is no database, and it is long enough to be taken for a file of one",
    });
    const run = await runGantry(t, ["serve", "--port", "0"], { home: home.path });
    assert.equal(run.code, 1, run.stderr);
    assert.match(run.stderr, /sessions\.db/);
    assert.match(await home.read("sessions.db"), /^this is no database/);
  });
});

describe("gantry serve", () => {
  it("prints its address, logs to stderr, makes its home private, and ends with 0 when told", async (t) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      const server = await startServer(t);
      assert.match(server.stdout, /^http server listening on http:\/\/127\.0\.0\.1:\d+\n$/);
      assert.equal((await stat(server.home)).mode & 0o777, 0o700);
      assert.deepEqual(await server.stop(signal), { code: 0, signal: null });
      await assert.rejects(server.fetch("/api/health"));
    }
  });

  it("takes flags before the config", async (t) => {
    const server = await startServer(t, {
      config: { server: { port: 1 } },
      args: ["serve", "--port", "0", "--session-driver", "sqlite"],
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });

  it("takes a named provider's key from its usual variable, but never for another address", async (t) => {
    const key = "canary-usual-key";
    const selected = async (provider: object) =>
      runGantry(t, ["adapters", "--json"], { config: { providers: [provider] }, env: { OPENAI_API_KEY: key } });
    const named = await selected({ provider: "openai" });
    assert.equal(named.code, 0, named.stdout + named.stderr);
    assert.ok(!(named.stdout + named.stderr).includes(key));
    const elsewhere = await selected({ provider: "groq" });
    assert.notEqual(elsewhere.code, 0);
    assert.match(elsewhere.stdout + elsewhere.stderr, /providers\[0\]\.api_key: expected the key of Groq/);
    const server = await startServer(t, {
      config: { providers: [{ provider: "openai" }] },
      env: { OPENAI_API_KEY: key },
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });

  it("reads no configuration from the project folder", async (t) => {
    const server = await startServer(t, {
      files: { "config.json": '{"server":{"nonsense":1}}', ".gantry/config.json": '{"server":{"nonsense":1}}' },
    });
    assert.equal((await server.fetch("/api/health")).status, 200);
  });
});
