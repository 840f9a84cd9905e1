import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import type { AdapterReport } from "../../../src/cli/check-report.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

describe("gantry check, as a process", () => {
  it("reports promises that nobody handles, and ends although the adapter left something open", async (t) => {
    const folder = await tempDir(t, {
      "odd.mjs": `import { createServer } from "node:net";
        createServer().listen(0);
        console.log("not JSON");
        export default { gantry: 1, kind: "hooks", name: "stray", create: () => ({
          beforeModelCall: () => void Promise.reject(new Error("no luck")),
        }) };`,
      "tmp/.keep": "",
    });
    const { code, stdout, stderr } = await runGantry(t, ["check", "odd.mjs", "--json"], {
      projectDir: folder.path,
      env: { TMPDIR: folder.at("tmp") },
    });
    assert.equal(code, 1, stderr);
    const { adapters } = JSON.parse(stdout) as { adapters: AdapterReport[] };
    const run = adapters[0]?.checks.find(({ group }) => group === "run");
    assert.deepEqual([run?.status, run?.message], ["failed", "no luck"]);
    assert.match(stderr, /^not JSON$/m);
    assert.deepEqual(
      readdirSync(folder.at("tmp")).filter((name) => name.startsWith("gantry-check")),
      [],
    );
  });

  it("tells an import that never ends", async (t) => {
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
  it("refuses a folder that is not empty, and a name that no package has, with exit code 2", async (t) => {
    const folder = await tempDir(t, { "full/a.txt": "text", file: "text", "empty/a/b": "" });
    for (const [args, line] of [
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
      assert.match(stderr, line);
    }
    assert.deepEqual(readdirSync(folder.path).sort(), ["empty", "file", "full"]);
  });
});
