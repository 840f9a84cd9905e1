import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

interface AdapterEntry {
  kind: string;
  name: string;
  builtIn: boolean;
  selectedBy: string[];
  error?: string;
}

describe("gantry adapters", () => {
  it("lists the available adapters and marks the adapters that the config selects", async (t) => {
    const run = await runGantry(t, ["adapters"]);
    assert.equal(run.code, 0, run.stderr);
    assert.equal(run.stderr, "");
    for (const name of [
      "koa-http-api",
      "acp-stdio",
      "acp-http-sse-ws",
      "sqlite",
      "json",
      "language-models",
      "offline",
      "bash",
      "summary",
    ])
      assert.match(run.stdout, new RegExp(`^  [* ] ${name}\\b`, "m"));
    assert.match(run.stdout, /\* koa-http-api +selected by server\.transports\[0\]/);
    assert.match(run.stdout, /\* sqlite +selected by session\.driver/);
    assert.match(run.stdout, /\* offline +selected by providers/);
    assert.match(run.stdout, /^ {4}json$/m);
  });

  it("prints JSON with third-party modules and their load errors; flags override the config", async (t) => {
    const validModuleCode =
      "export default { gantry: 1, kind: 'transport', name: 'good', parse: (raw) => raw, useClass: class {} };";
    const home = await tempDir(t, { "good.mjs": validModuleCode, "bad.mjs": "throw new Error('at import');" });
    const run = await runGantry(t, ["adapters", "--json", "--session-driver", "json"], {
      home: home.path,
      config: { server: { transports: ["./good.mjs", "./bad.mjs"] }, agent: { tools: ["read"] } },
    });
    assert.equal(run.code, 1, "a selected adapter cannot be loaded");
    const entries = JSON.parse(run.stdout) as AdapterEntry[];
    const findEntry = (name: string) => entries.find((entry) => entry.name === name);
    assert.deepEqual(findEntry("./good.mjs"), {
      kind: "transport",
      name: "./good.mjs",
      builtIn: false,
      selectedBy: ["server.transports[0]"],
    });
    assert.match(
      findEntry("./bad.mjs")?.error ?? "",
      /server\.transports\[1\]: \.\/bad\.mjs could not be loaded: at import/,
    );
    assert.deepEqual(findEntry("json")?.selectedBy, ["session.driver"]);
    assert.deepEqual(findEntry("sqlite")?.selectedBy, []);
    assert.deepEqual(findEntry("read")?.selectedBy, ["agent.tools"]);
    assert.deepEqual(findEntry("write")?.selectedBy, []);
  });

  it("rejects an invalid config with exit code 1", async (t) => {
    const run = await runGantry(t, ["adapters"], { config: { server: { port: "x" } } });
    assert.equal(run.code, 1);
    assert.match(run.stderr, /^gantry: .*server\.port: expected a whole number/);
  });
});
