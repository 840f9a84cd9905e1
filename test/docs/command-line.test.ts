import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { toFlag, type CommandDescription } from "../../src/cli/command-description.js";
import { COMMAND_DESCRIPTIONS } from "../../src/cli/descriptions/command-descriptions.js";
import { run as runAbout } from "../../src/cli/descriptions/run.js";
import { gantryCommand } from "../helpers/source-paths.js";
import { tempDir, type TempDir } from "../helpers/temp-dir.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const pageText = readFileSync(path.join(ROOT, "docs/command-line.md"), "utf8");

/** Replaces the values that differ between runs: ids, times, counts and the folder. */
function normalizeOutput(output: string, folder: TempDir): string {
  return output
    .replaceAll(folder.path, "/tmp/demo")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID")
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d +[\d,]+/g, "TIME AND TOKENS")
    .replace(/[\d,]+ tokens/g, "TOKENS")
    .replace(/ +/g, " ");
}

async function runShell(line: string, folder: TempDir, home: TempDir, binFolder: TempDir): Promise<string> {
  const child = spawn("bash", ["-c", `{ ${line}; } 2>&1 < /dev/null | cat`], {
    cwd: folder.path,
    env: {
      PATH: `${binFolder.path}:${process.env["PATH"]}`,
      HOME: home.path,
      GANTRY_HOME: home.path,
      TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json"),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
  await new Promise((resolve) => child.on("close", resolve));
  return output;
}

describe("command-line.md", () => {
  it("has transcripts of real output", { skip: process.platform === "win32" && "needs bash" }, async (t) => {
    const folder = await tempDir(t, {
      "package.json": '{ "name": "demo", "main": "lib/index.js" }\n',
      "lib/index.js": "",
    });
    const home = await tempDir(t);
    const binFolder = await tempDir(t);
    const gantryWords = [process.execPath, ...gantryCommand()];
    await binFolder.write({ gantry: `#!/bin/sh\nexec ${gantryWords.join(" ")} "$@"\n` });
    await runShell(`chmod +x ${binFolder.at("gantry")}`, folder, home, binFolder);
    const blocks = [...pageText.matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = ""]) => block);
    assert.ok(blocks.length >= 6);
    for (const block of blocks)
      for (const [, line = "", documentedOutput = ""] of block.matchAll(/^\$ ([^\n]+)\n((?:(?!\$ )[^\n]*\n)*)/gm))
        assert.equal(
          normalizeOutput(await runShell(line, folder, home, binFolder), folder),
          normalizeOutput(documentedOutput, folder),
          line,
        );
  });

  it("names every command, and every flag of gantry run", () => {
    for (const { name, commands } of COMMAND_DESCRIPTIONS) {
      assert.ok(pageText.includes(`\`gantry ${name}\``), name);
      for (const subcommand of Object.keys(commands ?? {}))
        assert.ok(pageText.includes(`\`${subcommand}\``), subcommand);
    }
    const { config: _, sessionDriver: __, ...runFlags }: CommandDescription["flags"] = runAbout.flags;
    for (const key of Object.keys(runFlags)) assert.ok(pageText.includes(toFlag(key)), toFlag(key));
  });
});
