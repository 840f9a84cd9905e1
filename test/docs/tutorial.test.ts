import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import path from "node:path";
import { describe, it } from "node:test";
import { gantryCommand, ROOT } from "../helpers/source-paths.js";
import { tempDir } from "../helpers/temp-dir.js";

const pageText = readFileSync(path.join(ROOT, "docs/tutorial.md"), "utf8");

/** Printed after the output of each block, so that outputs can be separated. */
const BLOCK_SEPARATOR = "-- end of block";

/** Replaces ids and numbers that differ between runs, and restores the line breaks of a terminal. */
function normalizeOutput(output: string): string {
  return output
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID")
    .replace(/(?<=.)(?=\d turns?, \d+ tokens)/g, "\n")
    .replace(/(?<=says: )\d+$/gm, "N")
    .replace(/\n{2,}/g, "\n");
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe("tutorial.md", () => {
  const skip = process.platform === "win32" && "needs bash";
  it("has commands that run in order and print the documented output", { skip }, async (t) => {
    const folder = await tempDir(t);
    const binFolder = await tempDir(t);
    await binFolder.write({ gantry: `#!/bin/sh\nexec ${[process.execPath, ...gantryCommand()].join(" ")} "$@"\n` });
    chmodSync(binFolder.at("gantry"), 0o755);
    // Replaces `npm install` of the clone, which also creates a link to the clone.
    mkdirSync(folder.at("node_modules"));
    symlinkSync(ROOT, folder.at("node_modules", "gantry"), "dir");
    const port = String(await findFreePort());
    const blocks = [...pageText.matchAll(/^```sh\n(.*?)^```$(?:\n\n(?:The[^\n]*:\n\n)?```text\n(.*?)^```$)?/gms)].map(
      ([, commands = "", documentedOutput]) => ({ commands, documentedOutput }),
    );
    assert.ok(blocks.length >= 15);
    // The first block installs packages. The block with a key needs an account.
    const [, ...laterBlocks] = blocks.filter(({ commands }) => !commands.includes("OPENAI_API_KEY"));
    const serveCommands = [
      'if [ -n "$SERVER" ]; then kill "$SERVER"; wait "$SERVER"; fi',
      // The background process empties the file too, but perhaps only after the first look.
      ": > ../served",
      `gantry serve --port ${port} > ../served 2>&1 & SERVER=$!`,
      'until grep -q "^http server listening" ../served; do kill -0 "$SERVER" || exit 3; sleep 0.05; done\n',
    ].join("\n");
    const blockScripts = laterBlocks.map(({ commands }) =>
      commands
        .replaceAll("localhost:8080", `localhost:${port}`)
        .replace(/^gantry serve\n/m, serveCommands)
        .replace(/^npm install .*\n/m, ""),
    );
    // One pipe keeps the order of both outputs. The trap ends the server after a failure.
    const setupCommands = 'exec 2>&1; trap \'[ -z "$SERVER" ] || kill "$SERVER"; wait\' EXIT\n';
    const child = spawn("bash", ["-ec", setupCommands + blockScripts.join(`echo; echo "${BLOCK_SEPARATOR}"\n`)], {
      cwd: folder.path,
      env: {
        PATH: `${binFolder.path}:${process.env["PATH"]}`,
        HOME: folder.path,
        TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json"),
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (output += piece));
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(code, 0, output);
    const outputs = output.split(`\n${BLOCK_SEPARATOR}\n`);
    for (const [blockIndex, { commands, documentedOutput }] of laterBlocks.entries())
      if (documentedOutput !== undefined)
        assert.equal(
          normalizeOutput(outputs[blockIndex]?.trimEnd() ?? ""),
          normalizeOutput(documentedOutput.trimEnd()),
          `${commands}\n${output}`,
        );
    assert.match(outputs.join(""), /"main\\": \\"greet\.js/);
    assert.match(outputs.join(""), /rejected: .*\n.*\n.*\n?(?:.*\n)*exit code 4\nexport const greeting = "Hello"/);
    assert.match(outputs.join(""), /"state":"answered".*\n?export const greeting = "Good morning"/);
    assert.match(outputs.join(""), /15 checks: 15 passed/);
  });
});
