import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { errorStep, textStep } from "../../helpers/fake-model-server.js";
import { startModelServer } from "../../helpers/server-runs.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const KEY = "key-of-the-lab";

/** Runs `gantry` with an empty home folder, in an empty project. */
async function createFixture(t: TestContext, files: Readonly<Record<string, string>> = {}) {
  const modelServer = await startModelServer(t);
  const home = await tempDir(t, files);
  const project = await tempDir(t);
  const gantry = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runGantry(t, args, { home: home.path, projectDir: project.path, env });
  return { modelServer, home, project, gantry, file: home.at("config.json") };
}

describe("gantry init without a terminal", () => {
  it("checks the key of a variable and writes its name with mode 0600, so that a run works", async (t) => {
    const { modelServer, project, gantry, file } = await createFixture(t, { "config.json": "{\n  // ours\n}\n" });
    const flags = ["--provider", "lab", "--base-url", modelServer.baseUrl, "--key-env", "LAB_KEY", "--model", "m1"];
    const setup = await gantry(["init", ...flags, "--yes"], { LAB_KEY: KEY });
    assert.deepEqual([setup.code, setup.stdout], [0, ""], setup.stderr);
    assert.match(setup.stderr, /^lab answers: \d+ models\nwrote .*config\.json \(readable only by you\); .*\n$/);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const content = readFileSync(file, "utf8");
    assert.match(content, /\n {2}\/\/ ours\n/);
    assert.match(content, /"api_key": "\$\{LAB_KEY\}"/);
    assert.ok(!existsSync(project.at("config.json")) && !content.includes(KEY) && !setup.stderr.includes(KEY));
    modelServer.enqueue(textStep("It works."));
    assert.equal((await gantry(["run", "--quiet", "x"], { LAB_KEY: KEY })).stdout, "It works.\n");
  });

  it("writes nothing for a rejected key, an unknown provider or model, or a missing variable", async (t) => {
    const { modelServer, gantry, file } = await createFixture(t);
    const lab = ["init", "--provider", "lab", "--base-url", modelServer.baseUrl];
    for (const [args, expectedError] of [
      [["init"], /init asks at a terminal; in scripts use --provider NAME/],
      [["init", "--provider", "opnai"], /--provider: unknown provider opnai: expected .*; did you mean openai\?/],
      [["init", "--provider", "openai"], /openai needs a key: set the environment variable OPENAI_API_KEY/],
      [[...lab, "--key-env", "NO_KEY"], /--key-env: the environment variable NO_KEY is not set/],
      [[...lab, "--model", "m2"], /--model: the provider does not list m2; did you mean m1\?; nothing was written/],
      [["init", "--provider", "lab", "--base-url", "http://127.0.0.1:9/v1"], /lab could not be checked; nothing was/],
    ] as const) {
      const { code, stderr } = await gantry(args);
      assert.equal(code, 1);
      assert.match(stderr, expectedError);
    }
    modelServer.listing = errorStep(401, `bad key ${KEY}`);
    const { code, stderr } = await gantry([...lab, "--key-env", "LAB_KEY", "--yes"], { LAB_KEY: KEY });
    assert.equal(code, 1);
    assert.match(stderr, /401: bad key \[redacted\].*\n.*lab could not be checked; nothing was written\n$/);
    assert.equal(existsSync(file), false);
  });

  it("writes the config for a provider that cannot be reached only with --yes", async (t) => {
    const { gantry, file } = await createFixture(t);
    const { code, stderr } = await gantry([
      "init",
      "--provider",
      "lab",
      "--base-url",
      "http://127.0.0.1:9/v1",
      "--yes",
    ]);
    assert.equal(code, 0, stderr);
    assert.match(readFileSync(file, "utf8"), /"name": "lab"/);
  });
});
