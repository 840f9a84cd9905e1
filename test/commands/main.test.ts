import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parse, readLine } from "../../src/commands/main.js";

describe("a command line", () => {
  for (const line of [
    "serve",
    "serve --acp --stdio",
    "--acp serve --stdio",
    "serve --port 0 --host ::1",
    "serve --port=0 --config=a=b --insecure",
    "serve --transport a --transport=b --session-driver json --acp-profile spec",
    "serve --transport a",
    "serve --host= --json",
    "serve some thing -",
    "sessions export a b",
    "--json adapters",
  ]) {
    it(`is read as meow does, and sooner: ${line}`, async () => {
      const argv = line.split(" ");
      assert.deepEqual(readLine(argv), await parse(argv));
    });
  }
});
