import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toFlag, type CommandDescription } from "../../../src/cli/command-description.js";
import { COMMAND_DESCRIPTIONS } from "../../../src/cli/descriptions/command-descriptions.js";
import { run } from "../../../src/cli/descriptions/run.js";
import { formatFailureLine, describeFailure } from "../../../src/cli/failure-message.js";
import { getFlagsFor } from "../../../src/cli/command-choice.js";
import { parseFlags, parseCommandLine } from "../../../src/cli/command-line.js";

/** Flags of all commands. A line that starts with a flag accepts all flags. */
const ALL_FLAGS = getFlagsFor(["--"]);
const COMMANDS_AND_SUBCOMMANDS: readonly CommandDescription[] = COMMAND_DESCRIPTIONS.flatMap((command) => [
  command,
  ...Object.values(command.commands ?? {}),
]);

/** Splits a line at spaces and parses the parts. Returns the arguments and flags, or the error. */
function parseLine(text: string) {
  const argv = text === "" ? [] : text.split(" ");
  const line = parseCommandLine(argv, ALL_FLAGS);
  const flagResult = parseFlags(line, ALL_FLAGS, argv);
  return "fault" in flagResult ? flagResult.fault : [line.input, flagResult.flags];
}

describe("a command line", () => {
  for (const [line, input, flags] of [
    ["", [], {}],
    ["--acp --stdio", [], { acp: true, stdio: true }],
    ["--json --json", [], { json: true }],
    ["--port 0 --host ::1", [], { port: "0", host: "::1" }],
    ["--port=0 --config=a=b --insecure", [], { port: "0", config: "a=b", insecure: true }],
    ["--transport a --transport=b --session-driver json", [], { transport: ["a", "b"], sessionDriver: "json" }],
    ["--transport a b", ["b"], { transport: ["a"] }],
    ["some thing -", ["some", "thing", "-"], {}],
    ["5 007 1e3 0x10 -5", ["5", "007", "1e3", "0x10", "-5"], {}],
    ["--search a.b --limit 0", [], { search: "a.b", limit: 0 }],
    ["--budget .5", [], { budget: 0.5 }],
    ["--json x", ["x"], { json: true }],
    ["-- --json -h", ["--json", "-h"], {}],
    ["--host a -- --host", ["--host"], { host: "a" }],
  ] as const)
    it(`is parsed: ${JSON.stringify(line)}`, () => assert.deepEqual(parseLine(line), [input, flags]));

  it("is parsed with the flags of its command, or with the flags of chat if the line is empty", () => {
    assert.deepEqual(Object.keys(getFlagsFor(["run"])).sort(), Object.keys(run.flags).sort());
    assert.deepEqual(getFlagsFor([]), getFlagsFor(["chat"]));
    for (const { flags } of COMMANDS_AND_SUBCOMMANDS)
      for (const name of Object.keys(flags)) assert.ok(Object.hasOwn(ALL_FLAGS, name), name);
  });

  for (const [line, fault] of [
    ["--host", "--host needs a value"],
    ["--host=", "--host needs a value"],
    ["--host --port 0", "--host needs a value"],
    ["--transport", "--transport needs a value"],
    ["--transport a --transport", "--transport needs a value"],
    ["--host a --host b", "--host was given twice"],
    ["--limit=", "--limit needs a value"],
    ["--limit x", '--limit: expected a number, got "x"'],
    ["--limit 0x10", '--limit: expected a number, got "0x10"'],
    ["--limit -1", '--limit: expected a number that is not below 0, got "-1"'],
    ["--mode loose", '--mode: expected one of auto, ask, plan, got "loose"'],
    ["--insecure=yes", "--insecure takes no value"],
    ["--help=yes", "--help takes no value"],
    ["-p 1", "unknown flag -p"],
    ["-xyz", "unknown flag -xyz"],
    ["--host-foo=x", "unknown flag --host-foo"],
    ["--no-host", "unknown flag --no-host"],
    ["--no-such-flag", "unknown flag --no-such-flag"],
    ["--host.name=x", "unknown flag --host.name"],
    ["--__proto__ x", "unknown flag --__proto__"],
    ["--constructor x", "unknown flag --constructor"],
    ["--\u001b[31mx", "unknown flag --\u001b[31mx"],
  ] as const)
    it(`is rejected: ${JSON.stringify(line)}`, () => assert.equal(parseLine(line), fault));
});

describe("the command descriptions", () => {
  it("give a flag the same type in each command", () => {
    const signaturesByFlag = new Map<string, string>();
    for (const { name, flags } of COMMANDS_AND_SUBCOMMANDS)
      for (const [key, { type, isMultiple = false, choices = [] }] of Object.entries(flags)) {
        const signature = `${type} ${isMultiple} ${choices.join()}`;
        assert.equal(signaturesByFlag.get(key) ?? signature, signature, `${toFlag(key)} of ${name}`);
        signaturesByFlag.set(key, signature);
      }
    assert.ok(signaturesByFlag.size > 10);
  });

  it("name the value of each flag that is not boolean, and describe flags in one line without a final full stop", () => {
    for (const { name, flags } of COMMANDS_AND_SUBCOMMANDS)
      for (const [key, { type, value, description }] of Object.entries(flags)) {
        assert.equal(value !== undefined, type !== "boolean", `${toFlag(key)} of ${name}`);
        assert.doesNotMatch(description, /\n|\.$/, `${toFlag(key)} of ${name}`);
      }
  });
});

describe("the failure message of a command", () => {
  it("is one line with escaped control characters, and explains a removed working directory", () => {
    assert.equal(formatFailureLine("a\r\n b\u001b[31m\u202e"), "gantry: a b\\u001b[31m\\u202e");
    assert.equal(describeFailure(new Error("no"), "models"), "models failed: no");
    const missingFolderError = Object.assign(new Error("ENOENT: no such file or directory, uv_cwd"), {
      syscall: "uv_cwd",
    });
    assert.equal(describeFailure(missingFolderError, "run"), "the folder in which gantry was started no longer exists");
  });
});
