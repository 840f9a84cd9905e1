import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent, builtinTools, type BuiltinToolsOptions, type Message } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { findJsonFault } from "../../../../../src/untrusted/json-errors.js";
import { tempDir, type TempDir } from "../../../../helpers/temp-dir.js";

const NODE_MODULES_PATH = fileURLToPath(new URL("../../../../../node_modules", import.meta.url));

type Call = readonly [name: string, args: Record<string, unknown>];

interface Workspace {
  folder: TempDir;
  /** Runs the calls in one run and returns the result of each call. */
  runCalls(...calls: Call[]): Promise<string[]>;
}

async function createWorkspace(
  t: TestContext,
  files: Record<string, string>,
  options: BuiltinToolsOptions = {},
  agentOptions: Partial<ConstructorParameters<typeof Agent>[0]> = {},
): Promise<Workspace> {
  const folder = await tempDir(t, files);
  // Busy machines are slow, and these tests do not check the timeout.
  const checks = { timeoutMs: 60_000, ...options.checks };
  const tools = builtinTools({ ...options, bash: { sandbox: "off", ...options.bash }, checks });
  return {
    folder,
    runCalls: async (...calls) => {
      const script = [...calls.map((call) => callTools(call)), "done"];
      const editAgent = new Agent({
        providers: [new ScriptedProvider(script)],
        tools,
        projectDir: folder.path,
        ...agentOptions,
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

/** Returns the check report of a tool result: the text after the first empty line. Empty without a report. */
function getCheckReport(result: string | undefined): string {
  return (result ?? "").split("\n\n").slice(1).join("\n\n");
}

describe("the syntax check of edited files", () => {
  it("reports new errors in JavaScript and TypeScript, and none in valid or already broken files", async (t) => {
    const { runCalls } = await createWorkspace(t, {
      "old.ts": "const a = (1;\nexport const b = 2;\n",
      "view.tsx": "export const v = <b>x</b>;\n",
      "broken.js": "let a = ;\n",
    });
    const [fixedReport, newFileReport, viewReport, moduleReport, stillBrokenReport, ...validReports] = await runCalls(
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
    assert.match(getCheckReport(newFileReport), /^New syntax errors after this change:\ndeep\/new\.mts:1: /);
    assert.match(getCheckReport(viewReport), /view\.tsx:1: /);
    assert.match(getCheckReport(moduleReport), /^New syntax errors .*\na\.js:2: .* \| await x\(;$/);
    assert.deepEqual(
      [fixedReport, stillBrokenReport, ...validReports].map(getCheckReport),
      Array<string>(2 + validReports.length).fill(""),
    );
  });

  it("checks JSON without a shell, and accepts comments in files such as tsconfig.json", async (t) => {
    const { runCalls } = await createWorkspace(t, { "was.json": "{" }, { bash: { enabled: false } });
    const [jsonReport, commentsReport, configReport, brokenReport] = await runCalls(
      ["write", { path: "a.json", content: '{\n  "a": 1,\n  "b": 2,\n}\n' }],
      ["write", { path: "b.json", content: '{ // no\n "a": 1 }' }],
      ["write", { path: "tsconfig.json", content: '{ // yes, "x\n "a": "/*", /* and */ "b": [1, ], }' }],
      ["write", { path: "was.json", content: "[" }],
    );
    assert.match(getCheckReport(jsonReport), /^New syntax errors .*\na\.json:4: .* \| \}$/);
    assert.deepEqual(
      [getCheckReport(commentsReport), getCheckReport(configReport), getCheckReport(brokenReport)],
      ["", "", ""],
    );
    assert.equal(findJsonFault('{"a": "//", "b": 1}', "x.json"), undefined);
    assert.equal(findJsonFault('{"a": "\\"//", /* x */ "b": [1, /* , */ ] /* " */ }', "x.jsonc"), undefined);
    assert.equal(findJsonFault('{"a": 1,, }', "x.jsonc")?.line, 1);
    assert.equal(findJsonFault("\uFEFF{}", "x.json"), undefined);
    assert.equal(findJsonFault('{\n"a": "x\ny"}', "x.json")?.line, 2);
  });

  it("reports new errors in Python, Go, Ruby, PHP, Java, Rust and shell files", async (t) => {
    const validFiles = {
      "a.py": "async def f():\n    return [i async for i in g()]\n",
      "a.go": "package a\n\nfunc f[T any](x T) T { return x }\n",
      "a.rb": "def f(x) = x + 1\n",
      "a.php": "<?php\nenum A: string { case B = 'b'; }\n",
      "a.java": "record A(int b) { int c() { return b; } }\n",
      "a.rs": "fn f<'a>(x: &'a str) -> &'a str { x }\n",
      "a.sh": "#!/bin/sh\nif true; then\n  echo 'it''s'\nfi\n",
    };
    const invalidFiles: Record<string, string> = {
      "a.py": "x = 1\nif x\n  pass\n",
      "a.go": "package a\n\nfunc f( {\n",
      "a.rb": "def f(x\n",
      "a.php": "<?php\nfunction f( {\n",
      "a.java": "class A { int b( { }\n",
      "a.rs": "fn f( -> {\n",
      "a.sh": "#!/bin/sh\nif true; then\n  echo 'it''s'\n",
    };
    const { runCalls } = await createWorkspace(t, { "c.py": "def f(:\n" });
    const [oldFileReport, ...validFileReports] = await runCalls(
      ["edit", { path: "c.py", old_string: "f(", new_string: "g(" }],
      ...Object.entries(validFiles).map(([path, content]) => ["write", { path, content }] as const),
    );
    assert.deepEqual(
      [oldFileReport, ...validFileReports].map(getCheckReport),
      Array<string>(validFileReports.length + 1).fill(""),
    );
    const paths = Object.keys(validFiles);
    const invalidFileReports = await runCalls(
      ...paths.flatMap((path) => [
        ["read", { path }] as const,
        ["write", { path, content: invalidFiles[path] }] as const,
      ]),
    );
    paths.forEach((path, i) =>
      assert.match(
        getCheckReport(invalidFileReports[2 * i + 1]),
        /^New syntax errors after this change:\na\.\w+:\d/,
        path,
      ),
    );
  });

  it("reports nothing for commented JSON, dialects, other shells and templates, but checks strict JSON", async (t) => {
    const { runCalls } = await createWorkspace(t, {
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
    const reports = await runCalls(...ambiguousFiles.map(([path, content]) => ["write", { path, content }] as const));
    ambiguousFiles.forEach(([path], i) =>
      assert.doesNotMatch(reports[i] ?? "", /New syntax errors/, `${path}: ${reports[i]}`),
    );
    const invalidJsonReports = await runCalls(
      ["write", { path: "package.json", content: '{ "a": 1, }' }],
      ["write", { path: "plain.json", content: '{"a": 1,}' }],
      ["write", { path: "any.jsonc", content: '{ "a": // one\n 1 "b": 2 }' }],
    );
    for (const report of invalidJsonReports) assert.match(report, /New syntax errors/);
  });

  it("names the changed line if the parser sees the error earlier, and a bracket that is not closed", async (t) => {
    const lines = Array.from({ length: 9 }, (_, i) => `def f${i}(a):\n    return g(\n        a\n    )\n`);
    const { runCalls } = await createWorkspace(t, { "a.py": lines.join("\n") });
    const [editReport, createReport] = await runCalls(
      ["edit", { path: "a.py", old_string: `${lines[5]}\n`, new_string: `${lines[5]?.replace("    )", "")}\n` }],
      ["write", { path: "b.py", content: "import a\n\nb = [\n    1,\n\nc = 2\n" }],
    );
    assert.equal(
      getCheckReport(editReport),
      "New syntax errors after this change:\na.py:29: syntax error from here on",
    );
    assert.equal(getCheckReport(createReport), "New syntax errors after this change:\nb.py:3: [ is not closed | b = [");
  });

  it("reports nothing at its memory or time limit, and checks the next file again", async (t) => {
    const { runCalls } = await createWorkspace(t, {});
    const [memoryReport, timeReport, followingReport] = await runCalls(
      ["write", { path: "a.java", content: "a<".repeat(10_000) }],
      ["write", { path: "a.go", content: "a?b:".repeat(25_000) }],
      ["write", { path: "a.js", content: "f((\n" }],
    );
    assert.deepEqual([memoryReport, timeReport].map(getCheckReport), ["", ""]);
    assert.match(getCheckReport(followingReport), /^New syntax errors/);
  });

  it("runs no program or module of the project", async (t) => {
    const { folder, runCalls } = await createWorkspace(t, {});
    const trapModule = `require("fs").appendFileSync(${JSON.stringify(folder.at("ran"))}, __filename)`;
    const trapScript = `#!/bin/sh\necho "$0" >> ${folder.at("ran")}\n`;
    const traps: Record<string, string> = {
      "node_modules/typescript/package.json": '{ "name": "typescript", "main": "lib/typescript.js" }',
      "node_modules/typescript/lib/typescript.js": trapModule,
      "node_modules/@vscode/tree-sitter-wasm/package.json": '{ "main": "index.js" }',
      "node_modules/@vscode/tree-sitter-wasm/index.js": trapModule,
      "sitecustomize.py": "open('ran', 'w')\n",
      ".npmrc": "script-shell=./trap\n",
    };
    for (const name of ["node", "bash", "python3", "ruby", "php", "gofmt", "tsc"]) {
      traps[`bin/${name}`] = trapScript;
      traps[`node_modules/.bin/${name}`] = trapScript;
    }
    for (const [file, content] of Object.entries(traps)) {
      await mkdir(path.dirname(folder.at(file)), { recursive: true });
      await writeFile(folder.at(file), content, { mode: 0o755 });
    }
    const env = { PATH: `${folder.at("bin")}:${folder.at("node_modules/.bin")}:${process.env["PATH"]}` };
    const secondWorkspace = await createWorkspace(t, {}, { env }, { projectDir: folder.path });
    const fileNames = ["a.js", "a.ts", "a.tsx", "a.py", "a.rb", "a.php", "a.go", "a.java", "a.rs"];
    for (const [parent, workspace] of Object.entries({ first: { runCalls }, second: secondWorkspace })) {
      const trapReports = await workspace.runCalls(
        ...fileNames.map((name) => {
          const content = name.endsWith("php") ? "<?php f(" : "f((\n";
          return ["write", { path: `${parent}/${name}`, content }] as const;
        }),
      );
      assert.equal(
        trapReports.filter((text) => text.includes("New syntax errors")).length,
        trapReports.length,
        trapReports.join("\n"),
      );
    }
    await assert.rejects(folder.read("ran"), /ENOENT/);
  });

  it("needs no permission for bash, and can be disabled", async (t) => {
    const invalidWrite = ["write", { path: "a.js", content: "let a = ;\n" }] as const;
    for (const permissionOptions of [{}, { rules: [{ tool: "bash", action: "deny" as const }] }]) {
      const { runCalls } = await createWorkspace(t, {}, { bash: { enabled: false } }, permissionOptions);
      assert.match(getCheckReport((await runCalls(invalidWrite))[0]), /^New syntax errors/);
    }
    const { runCalls } = await createWorkspace(t, {}, { checks: { syntax: false } });
    assert.equal(getCheckReport((await runCalls(invalidWrite))[0]), "");
  });
});

describe("configured check commands", () => {
  const command = "cat problems; node -e 'process.exit(1)' 2>/dev/null";

  it("report only lines that are new since the run's first change of a matching file", async (t) => {
    const checks = { syntax: false, commands: [{ files: "src/**/*.txt", command }] };
    const { folder, runCalls } = await createWorkspace(
      t,
      { problems: "a(1,2): old\nb(1): old\n", "src/x.txt": "1" },
      { checks },
    );
    const [firstReport, otherReport, secondReport, thirdReport] = await runCalls(
      ["edit", { path: "src/x.txt", old_string: "1", new_string: "2" }],
      ["write", { path: "problems", content: "a(3,4): old\nb(1): old\nb(7): old\nc: new\n" }],
      ["write", { path: "src/deep/y.txt", content: "2" }],
      ["delete", { path: "src/x.txt" }],
    );
    assert.deepEqual([getCheckReport(firstReport), getCheckReport(otherReport)], ["", ""]);
    const expectedReport = `New output of \`${command}\` since the first change of this run:\nb(7): old\nc: new`;
    assert.deepEqual([getCheckReport(secondReport), getCheckReport(thirdReport)], [expectedReport, expectedReport]);
    const [nextReport] = await runCalls(["write", { path: "src/x.txt", content: "3" }]);
    assert.equal(getCheckReport(nextReport), "", "the next run compares with the output at its own start");
    assert.equal(await folder.read("src/x.txt"), "3");
  });

  it("are ended at their timeout, which the result reports", async (t) => {
    const slowCommand = "test -e slow && sleep 600; echo x";
    const checks = { syntax: false, commands: [{ files: "**", command: slowCommand, timeout: 1 }] };
    const { runCalls } = await createWorkspace(t, {}, { checks });
    const [timeoutReport] = await runCalls(["write", { path: "slow", content: "" }]);
    assert.equal(getCheckReport(timeoutReport), `\`${slowCommand}\` timed out after 1 s; nothing was checked.`);
  });

  it("report a new tsc error in a file that depends on the edited file", async (t) => {
    const tscCommand = `${process.execPath} node_modules/typescript/bin/tsc --noEmit --strict --skipLibCheck a.ts b.ts`;
    const checks = { syntax: false, commands: [{ files: "*.ts", command: tscCommand, timeout: 120 }] };
    const files = {
      "a.ts": "export const a: number = 'x';\n",
      "b.ts": "import { a } from './a';\nexport const b: number = a;\n",
    };
    const { folder, runCalls } = await createWorkspace(t, files, { checks });
    await symlink(path.join(NODE_MODULES_PATH), folder.at("node_modules"));
    const [tscReport] = await runCalls(["write", { path: "a.ts", content: "\nexport const a: string = 'x';\n" }]);
    assert.match(getCheckReport(tscReport), /\nb\.ts\(2,14\): error TS2322: [^\n]*$/);
    assert.doesNotMatch(getCheckReport(tscReport), /\na\.ts/);
  });
});
