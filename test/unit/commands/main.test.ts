import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { flagName, type About } from "../../../src/commands/about.js";
import { ALL } from "../../../src/commands/about/all.js";
import { failureLine, lineOf } from "../../../src/commands/failed.js";
import { readLine } from "../../../src/commands/command-line.js";
import { parse } from "../../../src/commands/main.js";

const EVERY: readonly About[] = ALL.flatMap((about) => [about, ...Object.values(about.commands ?? {})]);
const FLAGS = Object.assign({}, ...EVERY.map(({ flags }) => flags)) as About["flags"];

describe("a command line", () => {
  for (const line of [
    "",
    "--acp --stdio",
    "--port 0 --host ::1",
    "--port=0 --config=a=b --insecure",
    "--transport a --transport=b --session-driver json --acp-profile spec",
    "--transport a",
    "--host= --json",
    "some thing -",
    "a b",
    "5 007 1e3 0x10",
    "--search a.b --limit 0",
    "-- --json -h",
    "a -- --json",
    "--json x",
  ]) {
    it(`is read as meow does, and sooner: ${line}`, async () => {
      const argv = line === "" ? [] : line.split(" ");
      assert.deepEqual(readLine(argv, FLAGS), await parse(argv, FLAGS));
    });
  }
});

describe("what commands say of themselves", () => {
  it("a flag is of the same type wherever it is one", () => {
    const types = new Map<string, string>();
    for (const { name, flags } of EVERY)
      for (const [key, { type, isMultiple = false, choices = [] }] of Object.entries(flags)) {
        const kind = `${type} ${isMultiple} ${choices.join()}`;
        assert.equal(types.get(key) ?? kind, kind, `${flagName(key)} of ${name}`);
        types.set(key, kind);
      }
    assert.ok(types.size > 10);
  });

  it("a flag that takes a value says what, one that takes none says nothing", () => {
    for (const { name, flags } of EVERY)
      for (const [key, { type, value, about }] of Object.entries(flags)) {
        assert.equal(value !== undefined, type !== "boolean", `${flagName(key)} of ${name}`);
        assert.doesNotMatch(about, /\n|\.$/, `${flagName(key)} of ${name}`);
      }
  });
});

describe("why a command failed", () => {
  it("is one line that steers no terminal, and says what a system's word means", () => {
    assert.equal(failureLine("a\r\n b\u001b[31m\u202e"), "gantry: a b\\u001b[31m\\u202e");
    assert.equal(lineOf(new Error("no"), "models"), "models failed: no");
    const gone = Object.assign(new Error("ENOENT: no such file or directory, uv_cwd"), { syscall: "uv_cwd" });
    assert.equal(lineOf(gone, "run"), "the folder that gantry was started in is not there any more");
  });
});
