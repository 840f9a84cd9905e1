import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent, builtinTools, type BuiltinToolsOptions, type Message, type SessionMode } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { jsonFault } from "../../../src/hostile/json-fault.js";
import { tempDir, type TempDir } from "../../helpers/temp.js";

const MODULES = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const HEAD = "Syntax errors that this change brought:";

type Call = readonly [name: string, args: Record<string, unknown>];

interface Made {
  folder: TempDir;
  /** What each call was answered. */
  results(...calls: Call[]): Promise<string[]>;
}

async function make(
  t: TestContext,
  files: Record<string, string>,
  options: BuiltinToolsOptions = {},
  agent: Partial<ConstructorParameters<typeof Agent>[0]> = {},
): Promise<Made> {
  const folder = await tempDir(t, files);
  // Busy machines are slow, and no time is looked at here.
  const checks = { timeoutMs: 60_000, ...options.checks };
  const tools = builtinTools({ ...options, bash: { sandbox: "off", ...options.bash }, checks });
  return {
    folder,
    results: async (...calls) => {
      const script = [...calls.map((call) => callTools(call)), "done"];
      const one = new Agent({ providers: [new ScriptedProvider(script)], tools, projectDir: folder.path, ...agent });
      try {
        const run = await one.run({ message: "go" });
        await run.result;
        const messages: Message[] = await one.sessions.messages(run.sessionId);
        return messages
          .filter(({ role }) => role === "tool")
          .map(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")).join(""));
      } finally {
        await one.close();
      }
    },
  };
}

/** Without what the tool itself says. */
function told(result: string | undefined): string {
  return (result ?? "").split("\n\n").slice(1).join("\n\n");
}

function has(program: string): boolean {
  try {
    execFileSync("/bin/sh", ["-c", `command -v ${program}`], { env: { PATH: "/usr/bin:/bin" } });
    return true;
  } catch {
    return false;
  }
}

describe("a look at the syntax of what was changed", () => {
  it("is that of the project's own TypeScript, and tells what is new alone", async (t) => {
    const { folder, results } = await make(t, {
      "old.ts": "const a = (1;\nexport const b = 2;\n",
      "view.tsx": "export const v = <b>x</b>;\n",
    });
    await symlink(MODULES, folder.at("node_modules"));
    const [old, moved, made, view, fine, gone] = await results(
      ["edit", { path: "old.ts", old_string: "b = 2;", new_string: "b = [2;" }],
      ["edit", { path: "old.ts", old_string: "const a", new_string: "// a word\nconst a" }],
      ["write", { path: "deep/new.mts", content: "export function f( {\n" }],
      ["edit", { path: "view.tsx", old_string: "</b>", new_string: "</i>" }],
      ["write", { path: "fine.cts", content: "enum A { B }\nexport = A;\n" }],
      ["delete", { path: "old.ts" }],
    );
    assert.equal(told(old), `${HEAD}\nold.ts:2: ',' expected. | export const b = [2;`);
    assert.equal(told(moved), "");
    assert.match(told(made), /^Syntax errors that this change brought:\ndeep\/new\.mts:/);
    assert.match(told(view), /view\.tsx:1: .*closing tag/);
    assert.deepEqual([told(fine), told(gone)], ["", ""]);
  });

  it("is Node's where there is no TypeScript, for what Node can read", async (t) => {
    const { results } = await make(t, { "broken.js": "let a = ;\n" });
    const [module, common, jsx, types, still] = await results(
      ["write", { path: "a.js", content: "import x from 'y';\nawait x(;\n" }],
      ["write", { path: "b.cjs", content: "#!/usr/bin/env node\nreturn 1 +;\n" }],
      ["write", { path: "c.js", content: "export const a = <b>1</b>;\n" }],
      ["write", { path: "d.ts", content: "const a: = 1;\n" }],
      ["write", { path: "broken.js", content: "let a = ;;\n" }],
    );
    assert.match(told(module), /^Syntax errors .*\na\.js:2: Unexpected token ';' \| await x\(;$/);
    assert.match(told(common), /b\.cjs:2: /);
    assert.deepEqual([jsx, types, still].map(told), ["", "", ""]);
  });

  it("knows JSON, with comments where that is usual, without any program", async (t) => {
    const { results } = await make(t, { "was.json": "{" }, { bash: { enabled: false } });
    const [json, comments, config, was] = await results(
      ["write", { path: "a.json", content: '{\n  "a": 1,\n  "b": 2,\n}\n' }],
      ["write", { path: "b.json", content: '{ // no\n "a": 1 }' }],
      ["write", { path: "tsconfig.json", content: '{ // yes, "x\n "a": "/*", /* and */ "b": [1, ], }' }],
      ["write", { path: "was.json", content: "[" }],
    );
    assert.match(told(json), /^Syntax errors .*\na\.json:4: .* \| \}$/);
    assert.deepEqual([told(comments), told(config), told(was)], ["", "", ""]);
    assert.equal(jsonFault('{"a": "//", "b": 1}', "x.json"), undefined);
    assert.equal(jsonFault('{"a": "\\"//", /* x */ "b": [1, /* , */ ] /* " */ }', "x.jsonc"), undefined);
    assert.equal(jsonFault('{"a": 1,, }', "x.jsonc")?.line, 1);
    assert.equal(jsonFault("\uFEFF{}", "x.json"), undefined);
    assert.equal(jsonFault('{\n"a": "x\ny"}', "x.json")?.line, 2);
  });

  it("is that of Python and of shells, where they are", { skip: !has("python3") }, async (t) => {
    const { results } = await make(t, { "ast.py": "raise SystemExit('mine')\n", "c.py": "def f(:\n" });
    const [python, fine, old, shell] = await results(
      ["write", { path: "a.py", content: "x = 1\nif x\n  pass\n" }],
      ["write", { path: "b.py", content: "async def f():\n    return [i async for i in g()]\n" }],
      ["edit", { path: "c.py", old_string: "f(", new_string: "g(" }],
      ["write", { path: "a.sh", content: "#!/bin/sh\nif true; then\n  echo 'it''s'\n" }],
    );
    assert.match(told(python), /^Syntax errors .*\na\.py:2: .* \(Python 3\.\d+\) \| if x$/);
    assert.deepEqual([told(fine), told(old)], ["", ""]);
    assert.match(told(shell), /a\.sh:\d+: syntax error: unexpected end of file/);
  });

  it("says nothing where it may be wrong: comments, dialects, other shells, what was no UTF-8", async (t) => {
    const { results } = await make(t, {
      ".flowconfig": "",
      "old.js": "f(a);\n",
      "was.sh": "echo 1\n",
      "plain.json": '{"a": 1}',
    });
    const quiet: [path: string, content: string][] = [
      [".vscode-like/x.json", '{ "a": 1, // one\n}'],
      [".eslintrc", "{ // one\n}"],
      ["app.settings.json", '{ "a": [1,], }'],
      ["any.json", '{ /* one */ "a": 1 }'],
      ["lines.json", '{"a":1}\n{"a":2}\n'],
      ["templates/x.json", '{ "a": {{ a }} }'],
      ["renovate.json", "{ a: 'b' }"],
      ["flow.js", "function f(a: ?string): {| b: 1 |} { return a; }\n"],
      ["old.js", "opaque type A = string;\nf((a: any));\n"],
      ["decorated.mjs", "@one\nexport class A { @two b = 1; }\n"],
      ["view.js", "export const v = () => <b>{1}</b>;\n"],
      ["glob.bash", "shopt -s extglob\nrm -- !(a|b)\nif [[ $a == @(b|c) ]]; then ls +(x); fi\n"],
      ["z.sh", "#!/usr/bin/env zsh\nfor f (*.c(.)) { print ${(U)f} }\n"],
      ["none.sh", "for f (*.c(.)) { print f }\n"],
      ["was.sh", "setopt x\nfor f (*.c) { print f }\n"],
      ["crlf.sh", "#!/bin/bash\r\nif true; then\r\n  ls\r\nfi\r\n"],
      ["note.bash", "cat <<E\none\n"],
      ["mark.py", "\uFEFFx = 1\n"],
      ["newer.py", "try:\n  pass\nexcept A, B:\n  t'{a}'\n"],
      ["old.py", "print 'x'\n"],
      ["made.py", "{% if a %}\nx = 1\n{% endif %}\n"],
    ];
    const told = await results(...quiet.map(([path, content]) => ["write", { path, content }] as const));
    quiet.forEach(([path], i) => assert.doesNotMatch(told[i] ?? "", /Syntax errors/, `${path}: ${told[i]}`));
    const wrong = await results(
      ["write", { path: "package.json", content: '{ "a": 1, }' }],
      ["write", { path: "plain.json", content: '{"a": 1,}' }],
      ["write", { path: "any.jsonc", content: '{ "a": // one\n 1 "b": 2 }' }],
      ["write", { path: "x.bash", content: "rm !(a\n" }],
    );
    for (const one of wrong) assert.match(one, /Syntax errors/);
  });

  it("has each way to decorate and to write types that the project's own compiler knows", async (t) => {
    const { folder, results } = await make(t, {});
    await symlink(MODULES, folder.at("node_modules"));
    const content = "@one\nexport class A { @two() b = 1; @three c(@four d) {} }\n";
    const fine = await results(
      ["write", { path: "a.js", content }],
      ["write", { path: "a.ts", content: content.replace("d)", "d: string)") }],
      ["write", { path: "b.js", content: "export const v = <b>{1}</b>;\n" }],
      ["write", { path: "c.js", content: "// @flow\ntype A = {| b: 1 |};\n" }],
    );
    for (const one of fine) assert.doesNotMatch(one, /Syntax errors/);
    const [wrong] = await results(["write", { path: "d.js", content: "f(;\n" }]);
    assert.match(wrong!, /Syntax errors .*\nd\.js:1/);
  });

  it("runs no program of the project", { skip: !has("python3") }, async (t) => {
    const bad = { path: "a.py", content: "def f(:\n" };
    const ran = '#!/bin/sh\necho ran >> "$(dirname "$0")/../ran"\n';
    const { folder, results } = await make(t, {
      "sitecustomize.py": "open('ran', 'w')\n",
      "ast.py": "open('ran', 'w')\n",
      ".python-version": "../../../x\n",
    });
    const files = [".venv/bin/python", "bin/python3", "bin/bash", "bin/gzip", "bin/base64", "bin/ruby"];
    for (const file of files) {
      await mkdir(path.dirname(folder.at(file)), { recursive: true });
      await writeFile(folder.at(file), ran, { mode: 0o755 });
    }
    const outer = await tempDir(t, {});
    await symlink(folder.at("bin/ruby"), outer.at("ruby"));
    await symlink(folder.at("bin"), outer.at("linked"));
    const calls = [
      ["write", bad],
      ["write", { path: "b.bash", content: "if\n" }],
      ["write", { path: "c.rb", content: "def\n" }],
    ] as const;
    const [python] = await results(...calls);
    assert.match(told(python), /a\.py:1: /);
    const own = `${folder.at("bin")}:bin::./bin:${outer.at("linked")}:${outer.path}:${folder.at(".venv/bin")}`;
    const env = { PATH: `${own}:${process.env["PATH"]}` };
    const again = await make(t, {}, { env }, { projectDir: folder.path });
    const [second, shell] = await again.results(
      ["write", { ...bad, path: "d.py" }],
      ["write", { path: "d.bash", content: "if\n" }],
      ["write", { path: "d.rb", content: "def\n" }],
    );
    assert.match(told(second), /d\.py:1: /);
    assert.match(told(shell), /d\.bash:\d/);
    await assert.rejects(folder.read("ran"), /ENOENT/);
  });

  it("runs nothing that a command would not be allowed to, and can be left out", async (t) => {
    const broken = ["write", { path: "a.js", content: "let a = ;\n" }] as const;
    const rule = (action: "deny" | "ask") => ({ rules: [{ tool: "bash", action }] });
    const free = await make(t, {});
    assert.notEqual(told((await free.results(broken))[0]), "");
    const mode: SessionMode = "ask";
    const all: [BuiltinToolsOptions, Partial<ConstructorParameters<typeof Agent>[0]>][] = [
      [{}, rule("deny")],
      [{}, rule("ask")],
      [{}, { permissions: { name: "all", judge: () => ({ action: "allow" }) } }],
      [{}, { hooks: { beforeToolCall: () => Promise.resolve(undefined) } }],
      [{}, { mode, rules: [{ tool: "write", action: "allow" }] }],
      [{ bash: { enabled: false } }, {}],
      [{ checks: { syntax: false } }, {}],
    ];
    for (const [options, agent] of all) {
      const { results } = await make(t, {}, options, agent);
      const [result] = await results(broken);
      assert.match(result ?? "", /^Created a\.js/, JSON.stringify([options, agent]));
      assert.equal(told(result), "", JSON.stringify([options, agent]));
    }
  });
});

describe("commands that look at what was changed", () => {
  const command = "cat problems; node -e 'process.exit(1)' 2>/dev/null";

  it("tell what is new since the run's first change of such a file", async (t) => {
    const checks = { syntax: false, commands: [{ files: "src/**/*.txt", command }] };
    const { folder, results } = await make(t, { problems: "a(1,2): old\nb(1): old\n", "src/x.txt": "1" }, { checks });
    const [first, other, second, third] = await results(
      ["edit", { path: "src/x.txt", old_string: "1", new_string: "2" }],
      ["write", { path: "problems", content: "a(3,4): old\nb(1): old\nb(7): old\nc: new\n" }],
      ["write", { path: "src/deep/y.txt", content: "2" }],
      ["delete", { path: "src/x.txt" }],
    );
    assert.deepEqual([told(first), told(other)], ["", ""]);
    const expected = `New from \`${command}\` since this run began to change files:\nb(7): old\nc: new`;
    assert.deepEqual([told(second), told(third)], [expected, expected]);
    const [next] = await results(["write", { path: "src/x.txt", content: "3" }]);
    assert.equal(told(next), "", "another run begins with what is there");
    assert.equal(await folder.read("src/x.txt"), "3");
  });

  it("are ended when their time is over, and say so", async (t) => {
    const slow = "test -e slow && sleep 600; echo x";
    const checks = { syntax: false, commands: [{ files: "**", command: slow, timeout: 1 }] };
    const { results } = await make(t, {}, { checks });
    const [first] = await results(["write", { path: "slow", content: "" }]);
    assert.equal(told(first), `\`${slow}\` took longer than 1 s, so nothing was checked.`);
  });

  it("have all of a real compiler's errors", async (t) => {
    const tsc = `${process.execPath} node_modules/typescript/bin/tsc --noEmit --strict --skipLibCheck a.ts b.ts`;
    const checks = { syntax: false, commands: [{ files: "*.ts", command: tsc, timeout: 120 }] };
    const files = {
      "a.ts": "export const a: number = 'x';\n",
      "b.ts": "import { a } from './a';\nexport const b: number = a;\n",
    };
    const { folder, results } = await make(t, files, { checks });
    await symlink(path.join(MODULES), folder.at("node_modules"));
    const [result] = await results(["write", { path: "a.ts", content: "\nexport const a: string = 'x';\n" }]);
    assert.match(told(result), /\nb\.ts\(2,14\): error TS2322: [^\n]*$/);
    assert.doesNotMatch(told(result), /\na\.ts/);
  });
});
