import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { SOURCE_FLAGS, sourcePath } from "../helpers/source-paths.js";
import { startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp-dir.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const EXAMPLES = path.join(ROOT, "examples");
const execFileAsync = promisify(execFile);
/** Uses the build if the test runner has made one, because a build loads in half the time of the sources. */
const NODE_FLAGS = process.env.GANTRY_TEST_DIST === "1" ? SOURCE_FLAGS.slice(0, 2) : SOURCE_FLAGS;

/** Runs an example like a user of the package, in a folder with one file. Returns its output. */
async function runExample(t: TestContext, name: string, ...args: string[]): Promise<string> {
  const folder = await tempDir(t, { "hello.txt": "Hello.\n" });
  const { stdout, stderr } = await execFileAsync(
    process.execPath,
    [...NODE_FLAGS, sourcePath(`examples/${name}`), ...args],
    {
      cwd: folder.path,
      env: { ...process.env, TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json") },
    },
  );
  assert.equal(stderr, "");
  return stdout;
}

describe("the examples", () => {
  it("are ten files within their maximum numbers of lines", () => {
    const names = readdirSync(EXAMPLES).sort();
    assert.deepEqual(
      names.map((name) => name.slice(0, 3)),
      ["01-", "02-", "03-", "04-", "05-", "06-", "07-", "08-", "09-", "10-"],
    );
    for (const name of names) {
      const lineCount = readFileSync(path.join(EXAMPLES, name), "utf8").trimEnd().split("\n").length;
      // The page with a prompt also has buttons; `test/browser/watch/page.test.ts` tests it in browsers.
      const maxLines = name === "08-take-part.html" ? 70 : name === "10-document-store.ts" ? 110 : 45;
      assert.ok(lineCount <= maxLines, `${name} has ${lineCount} lines`);
    }
  });

  it("01-embed.ts prints an answer and its usage", async (t) => {
    const text = await runExample(t, "01-embed.ts");
    assert.match(text, /hello\.txt/);
    assert.match(text, /promptTokens: \d+/);
  });

  it("02-serve-http.ts prints the address, an answer and the session id", async (t) => {
    const text = await runExample(t, "02-serve-http.ts");
    assert.match(text, /^listening on http:\/\/127\.0\.0\.1:\d+$/m);
    assert.match(text, /hello\.txt/);
    assert.match(text, /^\d+ tokens, session [0-9a-f-]{36}$/m);
  });

  it("03-own-transport.ts prints the answer of the offline provider", async (t) => {
    assert.match(await runExample(t, "03-own-transport.ts"), /No language model is attached/);
  });

  it("04-own-driver.ts prints the messages that a second agent reads", async (t) => {
    assert.equal(await runExample(t, "04-own-driver.ts"), "1 user, 2 assistant\n");
  });

  it("05-own-tool.ts prints the tool call, its result and the answer", async (t) => {
    assert.equal(
      await runExample(t, "05-own-tool.ts"),
      "Weather of Oslo\nOslo: 21 degrees, clear\nTake a light coat.\n",
    );
  });

  it("06-own-provider.ts prints the streamed text, the model and the tokens", async (t) => {
    assert.equal(await runExample(t, "06-own-provider.ts"), "Say \nit \nagain\necho echo-1 6\n");
  });

  it("09-client.ts prints the conversation and the tokens of a run", async (t) => {
    const server = await startServer(t, { files: { "notes.txt": "Remember.\n" } });
    const text = await runExample(t, "09-client.ts", server.url, "Read notes.txt");
    assert.match(text, /^user: Read notes\.txt$/m);
    assert.match(text, /Remember\./);
    assert.match(text, /^finished: 4 messages, \d+ tokens$/m);
  });
});
