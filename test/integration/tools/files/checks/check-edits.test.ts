import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent, builtinTools, type BuiltinToolsOptions, type Message } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { jsonFault } from "../../../../../src/untrusted/json-errors.js";
import { tempDir, type TempDir } from "../../../../helpers/temp.js";

const MODULES = fileURLToPath(new URL("../../../../../node_modules", import.meta.url));

type Call = readonly [name: string, args: Record<string, unknown>];

interface Workspace {
  folder: TempDir;
  /** The result of each call. */
  results(...calls: Call[]): Promise<string[]>;
}

async function createWorkspace(
  t: TestContext,
  files: Record<string, string>,
  options: BuiltinToolsOptions = {},
  agent: Partial<ConstructorParameters<typeof Agent>[0]> = {},
): Promise<Workspace> {
  const folder = await tempDir(t, files);
  // Busy machines are slow, and these tests do not check the timeout.
  const checks = { timeoutMs: 60_000, ...options.checks };
  const tools = builtinTools({ ...options, bash: { sandbox: "off", ...options.bash }, checks });
  return {
    folder,
    results: async (...calls) => {
      const script = [...calls.map((call) => callTools(call)), "done"];
      const editAgent = new Agent({
        providers: [new ScriptedProvider(script)],
        tools,
        projectDir: folder.path,
        ...agent,
      });
      try {
        const run = await editAgent.run({ message: "go" });
        await run.result;
        const messages: Message[] = await editAgent.sessions.messages(run.sessionId);
        return messages
          .filter(({ role }) => role === "tool")
          .map(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")).join(""));
      } finally {
        await editAgent.close();
      }
    },
  };
}

/** The report without the tool's own text. */
function checkReport(result: string | undefined): string {
  return (result ?? "").split("\n\n").slice(1).join("\n\n");
}

describe("the syntax check of edited files", () => {
  it("reports new errors in JavaScript and TypeScript, and none in valid or already broken files", async (t) => {
    const { results } = await createWorkspace(t, {
      "old.ts": "const a = (1;\nexport const b = 2;\n",
      "view.tsx": "export const v = <b>x</b>;\n",
      "broken.js": "let a = ;\n",
    });
    const [old, made, view, module, still, ...fine] = await results(
      ["edit", { path: "old.ts", old_string: "b = 2;", new_string: "b = [2;" }],
      ["write", { path: "deep/new.mts", content: "export function f( {\n" }],
      ["edit", { path: "view.tsx", old_string: "</b>", new_string: "</b" }],
      ["write", { path: "a.js", content: "import x from 'y';\nawait x(;\n" }],
      ["write", { path: "broken.js", content: "let a = ;;\n" }],
      ["write", { path: "fine.cts", content: "enum A { B }\nexport = A;\n" }],
      ["write", { path: "b.cjs", content: "#!/usr/bin/env node\nreturn 1;\n" }],
      ["write", { path: "c.js", content: "export const a = <b>1</b>;\n" }],
      ["write", { path: "d.js", content: "@one\nexport class A { @two() b = 1; @three c() {} }\n" }],
      ["write", { path: "e.ts", content: "@one\nexport class A { c(@four d: string) {} }\nlet x = y satisfies Z;\n" }],
      [
        "write",
        { path: "f.ts", content: "f<typeof import('a')>();\nlet a: import(\"b\").C<D>;\ninterface E<out F> {}\n" },
      ],
      ["delete", { path: "old.ts" }],
    );
    assert.match(checkReport(made), /^New syntax errors after this change:\ndeep\/new\.mts:1: /);
    assert.match(checkReport(view), /view\.tsx:1: /);
    assert.match(checkReport(module), /^New syntax errors .*\na\.js:2: .* \| await x\(;$/);
    assert.deepEqual([old, still, ...fine].map(checkReport), Array<string>(2 + fine.length).fill(""));
  });

  it("checks JSON without a shell, and accepts comments in files such as tsconfig.json", async (t) => {
    const { results } = await createWorkspace(t, { "was.json": "{" }, { bash: { enabled: false } });
    const [json, comments, config, was] = await results(
      ["write", { path: "a.json", content: '{\n  "a": 1,\n  "b": 2,\n}\n' }],
      ["write", { path: "b.json", content: '{ // no\n "a": 1 }' }],
      ["write", { path: "tsconfig.json", content: '{ // yes, "x\n "a": "/*", /* and */ "b": [1, ], }' }],
      ["write", { path: "was.json", content: "[" }],
    );
    assert.match(checkReport(json), /^New syntax errors .*\na\.json:4: .* \| \}$/);
    assert.deepEqual([checkReport(comments), checkReport(config), checkReport(was)], ["", "", ""]);
    assert.equal(jsonFault('{"a": "//", "b": 1}', "x.json"), undefined);
    assert.equal(jsonFault('{"a": "\\"//", /* x */ "b": [1, /* , */ ] /* " */ }', "x.jsonc"), undefined);
    assert.equal(jsonFault('{"a": 1,, }', "x.jsonc")?.line, 1);
    assert.equal(jsonFault("\uFEFF{}", "x.json"), undefined);
    assert.equal(jsonFault('{\n"a": "x\ny"}', "x.json")?.line, 2);
  });

  it("reports new errors in Python, Go, Ruby, PHP, Java, Rust and shell files", async (t) => {
    const good = {
      "a.py": "async def f():\n    return [i async for i in g()]\n",
      "a.go": "package a\n\nfunc f[T any](x T) T { return x }\n",
      "a.rb": "def f(x) = x + 1\n",
      "a.php": "<?php\nenum A: string { case B = 'b'; }\n",
      "a.java": "record A(int b) { int c() { return b; } }\n",
      "a.rs": "fn f<'a>(x: &'a str) -> &'a str { x }\n",
      "a.sh": "#!/bin/sh\nif true; then\n  echo 'it''s'\nfi\n",
    };
    const bad: Record<string, string> = {
      "a.py": "x = 1\nif x\n  pass\n",
      "a.go": "package a\n\nfunc f( {\n",
      "a.rb": "def f(x\n",
      "a.php": "<?php\nfunction f( {\n",
      "a.java": "class A { int b( { }\n",
      "a.rs": "fn f( -> {\n",
      "a.sh": "#!/bin/sh\nif true; then\n  echo 'it''s'\n",
    };
    const { results } = await createWorkspace(t, { "c.py": "def f(:\n" });
    const [old, ...created] = await results(
      ["edit", { path: "c.py", old_string: "f(", new_string: "g(" }],
      ...Object.entries(good).map(([path, content]) => ["write", { path, content }] as const),
    );
    assert.deepEqual([old, ...created].map(checkReport), Array<string>(created.length + 1).fill(""));
    const paths = Object.keys(good);
    const broken = await results(
      ...paths.flatMap((path) => [["read", { path }] as const, ["write", { path, content: bad[path] }] as const]),
    );
    paths.forEach((path, i) =>
      assert.match(checkReport(broken[2 * i + 1]), /^New syntax errors after this change:\na\.\w+:\d/, path),
    );
  });

  it("reports nothing for commented JSON, dialects, other shells and templates, but checks strict JSON", async (t) => {
    const { results } = await createWorkspace(t, {
      "was.sh": "echo 1\n",
      "plain.json": '{"a": 1}',
    });
    const ambiguousFiles: [path: string, content: string][] = [
      [".vscode-like/x.json", '{ "a": 1, // one\n}'],
      [".eslintrc", "{ // one\n}"],
      ["app.settings.json", '{ "a": [1,], }'],
      ["any.json", '{ /* one */ "a": 1 }'],
      ["lines.json", '{"a":1}\n{"a":2}\n'],
      ["templates/x.json", '{ "a": {{ a }} }'],
      ["renovate.json", "{ a: 'b' }"],
      ["flow.js", "// @flow\nfunction f(a: ?string): {| b: 1 |} { return a; }\n"],
      ["a.css", ".a { color: red;\n"],
      ["types.d.ts", "export default function (): void;\n"],
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
    const reports = await results(...ambiguousFiles.map(([path, content]) => ["write", { path, content }] as const));
    ambiguousFiles.forEach(([path], i) =>
      assert.doesNotMatch(reports[i] ?? "", /New syntax errors/, `${path}: ${reports[i]}`),
    );
    const wrong = await results(
      ["write", { path: "package.json", content: '{ "a": 1, }' }],
      ["write", { path: "plain.json", content: '{"a": 1,}' }],
      ["write", { path: "any.jsonc", content: '{ "a": // one\n 1 "b": 2 }' }],
    );
    for (const report of wrong) assert.match(report, /New syntax errors/);
  });

  it("names the changed line if the parser sees the error earlier, and a bracket that is not closed", async (t) => {
    const lines = Array.from({ length: 9 }, (_, i) => `def f${i}(a):\n    return g(\n        a\n    )\n`);
    const { results } = await createWorkspace(t, { "a.py": lines.join("\n") });
    const [edited, created] = await results(
      ["edit", { path: "a.py", old_string: `${lines[5]}\n`, new_string: `${lines[5]?.replace("    )", "")}\n` }],
      ["write", { path: "b.py", content: "import a\n\nb = [\n    1,\n\nc = 2\n" }],
    );
    assert.equal(checkReport(edited), "New syntax errors after this change:\na.py:29: syntax error from here on");
    assert.equal(checkReport(created), "New syntax errors after this change:\nb.py:3: [ is not closed | b = [");
  });

  it("reports nothing at its memory or time limit, and checks the next file again", async (t) => {
    const { results } = await createWorkspace(t, {});
    const [memory, time, next] = await results(
      ["write", { path: "a.java", content: "a<".repeat(10_000) }],
      ["write", { path: "a.go", content: "a?b:".repeat(25_000) }],
      ["write", { path: "a.js", content: "f((\n" }],
    );
    assert.deepEqual([memory, time].map(checkReport), ["", ""]);
    assert.match(checkReport(next), /^New syntax errors/);
  });

  it("runs no program or module of the project", async (t) => {
    const { folder, results } = await createWorkspace(t, {});
    const ran = `require("fs").appendFileSync(${JSON.stringify(folder.at("ran"))}, __filename)`;
    const script = `#!/bin/sh\necho "$0" >> ${folder.at("ran")}\n`;
    const traps: Record<string, string> = {
      "node_modules/typescript/package.json": '{ "name": "typescript", "main": "lib/typescript.js" }',
      "node_modules/typescript/lib/typescript.js": ran,
      "node_modules/@vscode/tree-sitter-wasm/package.json": '{ "main": "index.js" }',
      "node_modules/@vscode/tree-sitter-wasm/index.js": ran,
      "sitecustomize.py": "open('ran', 'w')\n",
      ".npmrc": "script-shell=./trap\n",
    };
    for (const name of ["node", "bash", "python3", "ruby", "php", "gofmt", "tsc"]) {
      traps[`bin/${name}`] = script;
      traps[`node_modules/.bin/${name}`] = script;
    }
    for (const [file, content] of Object.entries(traps)) {
      await mkdir(path.dirname(folder.at(file)), { recursive: true });
      await writeFile(folder.at(file), content, { mode: 0o755 });
    }
    const env = { PATH: `${folder.at("bin")}:${folder.at("node_modules/.bin")}:${process.env["PATH"]}` };
    const again = await createWorkspace(t, {}, { env }, { projectDir: folder.path });
    const names = ["a.js", "a.ts", "a.tsx", "a.py", "a.rb", "a.php", "a.go", "a.java", "a.rs"];
    for (const [parent, made] of Object.entries({ first: { results }, second: again })) {
      const broken = await made.results(
        ...names.map((name) => {
          const content = name.endsWith("php") ? "<?php f(" : "f((\n";
          return ["write", { path: `${parent}/${name}`, content }] as const;
        }),
      );
      assert.equal(
        broken.filter((text) => text.includes("New syntax errors")).length,
        broken.length,
        broken.join("\n"),
      );
    }
    await assert.rejects(folder.read("ran"), /ENOENT/);
  });

  it("needs no permission for bash, and can be disabled", async (t) => {
    const broken = ["write", { path: "a.js", content: "let a = ;\n" }] as const;
    for (const agent of [{}, { rules: [{ tool: "bash", action: "deny" as const }] }]) {
      const { results } = await createWorkspace(t, {}, { bash: { enabled: false } }, agent);
      assert.match(checkReport((await results(broken))[0]), /^New syntax errors/);
    }
    const { results } = await createWorkspace(t, {}, { checks: { syntax: false } });
    assert.equal(checkReport((await results(broken))[0]), "");
  });
});

describe("configured check commands", () => {
  const command = "cat problems; node -e 'process.exit(1)' 2>/dev/null";

  it("report only lines that are new since the run's first change of a matching file", async (t) => {
    const checks = { syntax: false, commands: [{ files: "src/**/*.txt", command }] };
    const { folder, results } = await createWorkspace(
      t,
      { problems: "a(1,2): old\nb(1): old\n", "src/x.txt": "1" },
      { checks },
    );
    const [first, otherReport, second, third] = await results(
      ["edit", { path: "src/x.txt", old_string: "1", new_string: "2" }],
      ["write", { path: "problems", content: "a(3,4): old\nb(1): old\nb(7): old\nc: new\n" }],
      ["write", { path: "src/deep/y.txt", content: "2" }],
      ["delete", { path: "src/x.txt" }],
    );
    assert.deepEqual([checkReport(first), checkReport(otherReport)], ["", ""]);
    const expected = `New output of \`${command}\` since the first change of this run:\nb(7): old\nc: new`;
    assert.deepEqual([checkReport(second), checkReport(third)], [expected, expected]);
    const [next] = await results(["write", { path: "src/x.txt", content: "3" }]);
    assert.equal(checkReport(next), "", "another run begins with what is there");
    assert.equal(await folder.read("src/x.txt"), "3");
  });

  it("are ended at their timeout and report it", async (t) => {
    const slow = "test -e slow && sleep 600; echo x";
    const checks = { syntax: false, commands: [{ files: "**", command: slow, timeout: 1 }] };
    const { results } = await createWorkspace(t, {}, { checks });
    const [first] = await results(["write", { path: "slow", content: "" }]);
    assert.equal(checkReport(first), `\`${slow}\` timed out after 1 s; nothing was checked.`);
  });

  it("report a new tsc error in a file that depends on the edited one", async (t) => {
    const tsc = `${process.execPath} node_modules/typescript/bin/tsc --noEmit --strict --skipLibCheck a.ts b.ts`;
    const checks = { syntax: false, commands: [{ files: "*.ts", command: tsc, timeout: 120 }] };
    const files = {
      "a.ts": "export const a: number = 'x';\n",
      "b.ts": "import { a } from './a';\nexport const b: number = a;\n",
    };
    const { folder, results } = await createWorkspace(t, files, { checks });
    await symlink(path.join(MODULES), folder.at("node_modules"));
    const [result] = await results(["write", { path: "a.ts", content: "\nexport const a: string = 'x';\n" }]);
    assert.match(checkReport(result), /\nb\.ts\(2,14\): error TS2322: [^\n]*$/);
    assert.doesNotMatch(checkReport(result), /\na\.ts/);
  });
});
