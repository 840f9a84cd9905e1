import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { refuseFirstRequest } from "../../../adapters/acp-stdio/first-request-refusal.js";
import type { Json } from "../../helpers/acp-peer.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const ACP_ARGS = ["serve", "--acp", "--stdio"];
const INITIALIZE = { jsonrpc: "2.0", id: "first", method: "initialize", params: { protocolVersion: 1 } };

describe("gantry serve --acp --stdio that fails to start", () => {
  const cases: [setup: string, config: (folder: string) => Json, expectedError: RegExp][] = [
    ["a config typo", () => ({ acp: { profil: "auto" } }), /config\.json: acp\.profil: /],
    [
      "an invalid config value",
      () => ({ acp: { profile: "offical" } }),
      /config\.json: acp\.profile: expected one of /,
    ],
    ["a missing plugin", () => ({ agent: { tools: ["./none.mjs"] } }), /none\.mjs/],
    ["a store that cannot be opened", (folder) => ({ session: { path: `${folder}/a.db` } }), /a\.db/],
  ];
  for (const [name, createConfig, expectedError] of cases) {
    it(`responds to the first request with the error line of stderr and exits with 1 after ${name}`, async (t) => {
      // A folder in place of the store file prevents the open.
      const folder = await tempDir(t, { "a.db/in-the-way": "" });
      // A notification and an empty line precede the first request. The second request receives no response.
      const input = `${JSON.stringify({ ...INITIALIZE, id: undefined })}\n\n${JSON.stringify(INITIALIZE)}\n{"jsonrpc":"2.0","id":2,"method":"session/new"}\n`;
      const { code, stdout, stderr } = await runGantry(t, ACP_ARGS, { config: createConfig(folder.path), input });
      assert.equal(code, 1);
      const lines = stderr.split("\n").filter((line) => line.startsWith("gantry: "));
      assert.equal(lines.length, 1, stderr);
      assert.match(lines[0] ?? "", expectedError);
      assert.deepEqual(JSON.parse(stdout), { jsonrpc: "2.0", id: "first", error: { code: -32603, message: lines[0] } });
    });
  }

  it("responds with the error of an invalid or unknown flag; prints nothing without --stdio or without a request", async (t) => {
    const input = `${JSON.stringify(INITIALIZE)}\n`;
    const invalidFlagResult = await runGantry(t, [...ACP_ARGS, "--acp-profile", "none"], { input });
    assert.equal(invalidFlagResult.code, 1);
    assert.match(
      (JSON.parse(invalidFlagResult.stdout) as Json).error.message,
      /--acp-profile: expected one of "auto", "spec", "official", got "none"/,
    );
    const unknownFlagResult = await runGantry(t, [...ACP_ARGS, "--acp-profil", "auto"], { input });
    assert.equal((JSON.parse(unknownFlagResult.stdout) as Json).error.message, unknownFlagResult.stderr.trim());
    assert.match(unknownFlagResult.stderr, /^gantry: unknown flag --acp-profil; did you mean --acp-profile\? /);
    const config = { acp: { profil: "auto" } };
    for (const [args, stdin] of [
      [["serve", "--acp"], input],
      [ACP_ARGS, ""],
      [ACP_ARGS, '{"jsonrpc":"2.0","method":"initialized"}\nnonsense\n'],
    ] as const) {
      const { code, stdout, stderr } = await runGantry(t, args, { config, input: stdin });
      assert.equal(code, 1);
      assert.equal(stdout, "");
      assert.match(stderr, /^gantry: .*acp\.profil/m);
    }
  });

  it("refuseFirstRequest reads a request in pieces, and waits for no input from a terminal or an ended stream", async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const pendingRefusal = refuseFirstRequest("why", input, output);
    const text = `${JSON.stringify(INITIALIZE)}\n`;
    for (const character of text) input.write(character);
    await pendingRefusal;
    assert.deepEqual(JSON.parse(String(output.read())), {
      jsonrpc: "2.0",
      id: "first",
      error: { code: -32603, message: "why" },
    });
    await refuseFirstRequest("why", Object.assign(new PassThrough(), { isTTY: true }), output);
    const endedInput = new PassThrough();
    endedInput.end();
    await refuseFirstRequest("why", endedInput, output);
    endedInput.destroy();
    await refuseFirstRequest("why", endedInput, output);
    assert.equal(output.read(), null);
  });
});
