import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import type { AdapterReport } from "../../../src/cli/check-report.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

describe("gantry check in its own process", () => {
  it("reports an unhandled rejection as a failed check, and exits although the adapter holds an open server", async (t) => {
    const folder = await tempDir(t, {
      "odd.mjs": `import { createServer } from "node:net";
        createServer().listen(0);
        console.log("not JSON");
        export default { gantry: 1, kind: "hooks", name: "stray", create: () => ({
          beforeModelCall: () => {
            void Promise.reject(new Error("no luck"));
            // Rejects twice after the check has already failed.
            for (let n = 0; n < 2; n++) setImmediate(() => Promise.reject(new Error("again no luck")));
          },
        }) };`,
      "tmp/.keep": "",
    });
    const { code, stdout, stderr } = await runGantry(t, ["check", "odd.mjs", "--json"], {
      projectDir: folder.path,
      env: { TMPDIR: folder.at("tmp") },
    });
    assert.equal(code, 1, stderr);
    const { adapters } = JSON.parse(stdout) as { adapters: AdapterReport[] };
    const runCheck = adapters[0]?.checks.find(({ group }) => group === "run");
    assert.deepEqual([runCheck?.status, runCheck?.message], ["failed", "no luck"]);
    // The next check may report the error too.
    const lateFailures = adapters[0]!.checks.filter(({ message }) => message === "again no luck");
    assert.ok(lateFailures.length > 0);
    assert.ok(lateFailures.filter(({ group }) => group === "adapter").length <= 1);
    assert.match(stderr, /^not JSON$/m);
    assert.deepEqual(
      readdirSync(folder.at("tmp")).filter((name) => name.startsWith("gantry-check")),
      [],
    );
  });

  it("reports an import that never ends as timed out", async (t) => {
    const folder = await tempDir(t, { "odd.mjs": "await new Promise(() => setInterval(() => {}, 1000));" });
    const { code, stderr } = await runGantry(t, ["check", "./odd.mjs", "--timeout", "0.1"], {
      projectDir: folder.path,
    });
    assert.deepEqual(
      [code, stderr],
      [1, "gantry: check failed: ./odd.mjs could not be loaded: import: timed out after 100 ms\n"],
    );
  });
});

describe("gantry new", () => {
  it("exits with 2 for a folder that is not empty, an invalid package name or invalid arguments", async (t) => {
    const folder = await tempDir(t, { "full/a.txt": "text", file: "text", "empty/a/b": "" });
    for (const [args, errorPattern] of [
      [["tool", "full"], /full: expected an empty folder, got one with a\.txt; --dir names another/],
      [["tool", "file"], /file: expected an empty folder \(ENOTDIR\)/],
      [["tool", "Big"], /expected the name of an npm package, .*, got "Big"/],
      [["tool", "../up"], /expected the name of an npm package/],
      [["tool", "fs"], /of no other module, got "fs"/],
      [["tool", "gantry"], /expected the name of an npm package/],
      [["tool"], /expected one NAME after tool, got 0/],
      [["toll", "a"], /expected one of transport, driver, provider, tool, hook, got toll/],
      [["tool", "a", "--to", "b"], /unknown flag --to/],
    ] as const) {
      const { code, stderr, stdout } = await runGantry(t, ["new", ...args], { projectDir: folder.path });
      assert.deepEqual([code, stdout], [2, ""], stderr);
      assert.match(stderr, errorPattern);
    }
    assert.deepEqual(readdirSync(folder.path).sort(), ["empty", "file", "full"]);
  });
});
