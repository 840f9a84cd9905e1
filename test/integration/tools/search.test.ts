import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { compileGlob as compile } from "../../../src/untrusted/search/globs.js";
import { TimeBudget } from "../../../src/untrusted/search/path-rules.js";
import { grepTool } from "../../../src/tools/files/grep.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";
import { fc } from "../../helpers/fast-check.js";

const compileGlob = (glob: string) => compile(glob, new TimeBudget(60_000));
const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));

async function createWorkspace(files: Record<string, string | Buffer>, options: { git?: boolean } = {}) {
  const folder = await createTemporaryFolder();
  const context = createToolContext(folder.path);
  const git = (...args: string[]): string =>
    execFileSync("git", ["-c", "core.excludesFile=/dev/null", ...args], { cwd: folder.path, encoding: "utf8" });
  if (options.git) git("init", "-q");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, name)), { recursive: true });
    await writeFile(join(folder.path, name), content);
  }
  return {
    path: folder.path,
    context,
    git,
    call: async (name: string, input: object) => (await callTool(tools.get(name)!, input, context)).text,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

describe("glob patterns", () => {
  for (const [glob, matchingPaths, otherPaths] of [
    ["*.ts", ["a.ts", "src/a.ts", ".ts"], ["a.tsx", "a.ts/b"]],
    ["src/*.ts", ["src/a.ts"], ["src/b/a.ts", "x/src/a.ts"]],
    ["src/**/*.ts", ["src/a.ts", "src/b/c/a.ts"], ["a.ts"]],
    ["**/*.{ts,tsx}", ["a.ts", "b/c.tsx"], ["a.js"]],
    ["src/{a,b/{c,d}}.js", ["src/a.js", "src/b/c.js", "src/b/d.js"], ["src/b.js"]],
    ["[a-c]?[!0-9].md", ["axx.md"], ["dxx.md", "ax1.md"]],
    ["./lib/", ["lib/a", "lib/b/c"], ["lib2/a"]],
    ["**", ["a", "a/b"], []],
    ["\\*.txt", ["*.txt"], ["a.txt"]],
    ["a{b}c", ["a{b}c"], ["abc"]],
    ["[", [], ["["]],
    ["😀?", ["😀é", "😀😀"], ["😀"]],
  ] as const)
    it(`match only the expected paths: ${glob}`, () => {
      const matches = compileGlob(glob);
      for (const path of matchingPaths) assert.equal(matches(path), true, path);
      for (const path of otherPaths) assert.equal(matches(path), false, path);
    });

  it("are matched without exponential time, and too many brace combinations are rejected", () => {
    const initialCpuUsage = process.cpuUsage();
    assert.equal(compileGlob("*a".repeat(40) + "b")("a".repeat(255)), false);
    assert.equal(compileGlob("**/a/".repeat(40) + "b")("a/".repeat(100) + "c"), false);
    assert.throws(() => compileGlob("{a,b}".repeat(40)), /combinations/);
    assert.ok(process.cpuUsage(initialCpuUsage).user < 5_000_000, "at most 5 s of CPU time, in microseconds");
  });
});

describe("ignore files", () => {
  it("hide the same files as git in random folders", async () => {
    const nameArbitrary = fc.constantFrom("a", "b", "ab", "a.b", "c d", "#x", "!y", "B");
    const pieceArbitrary = fc.constantFrom(
      "a",
      "b",
      "ab",
      "*",
      "**",
      "?",
      "*b",
      "a*",
      "[ab]",
      "[!a]",
      "\\#x",
      "!y",
      "c d",
      "B",
      "a.b",
    );
    const ruleArbitrary = fc
      .tuple(
        fc.constantFrom("", "", "", "!"),
        fc.constantFrom("", "", "/"),
        fc.array(pieceArbitrary, { minLength: 1, maxLength: 3 }),
        fc.constantFrom("", "", "/", " "),
      )
      .map(([negation, prefix, pieces, suffix]) => negation + prefix + pieces.join("/") + suffix);
    const rulesArbitrary = fc.array(ruleArbitrary, { maxLength: 4 }).map((lines) => lines.join("\n"));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(nameArbitrary, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 }),
        rulesArbitrary,
        rulesArbitrary,
        rulesArbitrary,
        async (paths, topRules, nestedRules, excludeRules) => {
          const files: Record<string, string> = {};
          // A name must be either a folder or a file.
          for (const path of paths) {
            const filePath = [...path, "f"].join("/");
            files[filePath] = "";
          }
          files["a/.gitignore"] = nestedRules;
          files[".gitignore"] = topRules;
          await using workspace = await createWorkspace(files, { git: true });
          await mkdir(join(workspace.path, ".git/info"), { recursive: true });
          await writeFile(join(workspace.path, ".git/info/exclude"), excludeRules);
          const expectedPaths = workspace
            .git("-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard")
            .split("\0")
            .filter(Boolean)
            .sort();
          const globText = await workspace.call("glob", { pattern: "**" });
          const shownPaths = globText.startsWith("No file") ? [] : globText.split("\n").sort();
          assert.deepEqual(shownPaths, expectedPaths);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("apply from parent folders and in worktrees, with CRLF lines; an ignored folder can be named", async () => {
    await using workspace = await createWorkspace(
      {
        ".gitignore": "dist/\r\n*.log\r\n",
        "pkg/src/a.ts": "x",
        "pkg/dist/b.js": "x",
        "pkg/dist/c.log": "x",
        "pkg/e.log": "x",
      },
      { git: true },
    );
    const packageContext = createToolContext(join(workspace.path, "pkg"));
    const glob = async (input: object) => (await callTool(tools.get("glob")!, input, packageContext)).text;
    assert.equal(await glob({ pattern: "**" }), "src/a.ts");
    assert.equal(await glob({ pattern: "**", path: "dist" }), "dist/b.js");
    assert.equal(await glob({ pattern: "**", all: true }), "dist/b.js\ndist/c.log\ne.log\nsrc/a.ts");
    workspace.git("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "first");
    workspace.git("worktree", "add", "-q", "tree");
    await writeFile(join(workspace.path, ".git/info/exclude"), "hidden\n");
    await writeFile(join(workspace.path, "tree/hidden"), "");
    await writeFile(join(workspace.path, "tree/seen"), "");
    const worktreeContext = createToolContext(join(workspace.path, "tree"));
    assert.equal((await callTool(tools.get("glob")!, { pattern: "**" }, worktreeContext)).text, "seen");
  });

  it("in the project folder apply to its subfolders without git", async () => {
    await using workspace = await createWorkspace({
      ".gitignore": "out/\n*.tmp\n",
      "src/a.ts": "",
      "src/b.tmp": "",
      "src/out/c": "",
    });
    assert.equal(await workspace.call("glob", { pattern: "**", path: "src" }), "src/a.ts");
    assert.equal(await workspace.call("list", { path: "src" }), "a.ts\n[2 hidden by .gitignore; set all to show them]");
  });

  it("treat escaped and trailing spaces like git", async () => {
    await using workspace = await createWorkspace(
      { ".gitignore": "a\\ \nb  \n", "a ": "", a: "", b: "", d: "" },
      { git: true },
    );
    const expectedPaths = workspace
      .git("ls-files", "-z", "--others", "--exclude-standard")
      .split("\0")
      .filter(Boolean)
      .sort();
    assert.deepEqual((await workspace.call("list", {})).split("\n").slice(0, -1), expectedPaths);
  });

  for (const [feature, rules] of [
    ["many stars", `${"*a".repeat(20)}*b\n`.repeat(24_000)],
    ["many folders", `${"**/a*/".repeat(8)}b*\n`.repeat(20_000)],
    ["one rule of 1 MB", "*a".repeat(500_000)],
    ["1,000,000 spaces", `x${" ".repeat(1_000_000)}`],
    ["50,000 names", Array.from({ length: 50_000 }, (_, n) => `name${n}`).join("\n")],
    ["2 MiB of rules", "a\n".repeat(1_100_000)],
  ] as const)
    it(`of a third party with ${feature} do not block list`, async () => {
      const fileEntries = Array.from({ length: 300 }, (_, i) => [`${"a".repeat(200)}f${i}`, ""] as const);
      await using workspace = await createWorkspace({ ...Object.fromEntries(fileEntries), ".gitignore": rules });
      assert.match(await workspace.call("list", {}), /^a{200}f0$/m);
    });

  it("that are a pipe or a folder do not block a search", async () => {
    await using workspace = await createWorkspace({ "a/x": "" });
    execFileSync("mkfifo", [join(workspace.path, "a/.gitignore")]);
    await mkdir(join(workspace.path, ".gitignore"));
    // Ripgrep waits for the pipe. Where gantry cannot detect such a wait, the time limit ends the search.
    const text = await workspace.call("glob", { pattern: "x" });
    assert.match(text, /^a\/x(\n\[ignore files were not applied: .*\])?$/);
  });

  it("that link to a device are not read, which the results of grep and list report", async () => {
    await using workspace = await createWorkspace({ "a/x": "needle" });
    await symlink("/dev/zero", join(workspace.path, "a/.gitignore"));
    assert.match(
      await workspace.call("grep", { pattern: "needle" }),
      /^a\/x\n1:needle\n\[ignore files were not applied: /,
    );
    assert.match(
      await workspace.call("list", { depth: 2 }),
      /^a\/\na\/\.gitignore -> \/dev\/zero\na\/x\n\[ignore files /,
    );
  });
});

describe("list", () => {
  it("shows a folder sorted, with link targets and without .git, and rejects files and missing paths", async () => {
    await using workspace = await createWorkspace(
      { "b.txt": "", "a/c.txt": "", "ignored.log": "", ".gitignore": "*.log\n", ".env": "" },
      { git: true },
    );
    await symlink("a", join(workspace.path, "link"));
    await symlink("..", join(workspace.path, "a/loop"));
    assert.equal(
      await workspace.call("list", {}),
      ".env\n.gitignore\na/\nb.txt\nlink -> a\n[1 hidden by .gitignore; set all to show them]",
    );
    assert.equal(await workspace.call("list", { depth: 5, path: "a" }), "c.txt\nloop -> ..");
    assert.match(await workspace.call("list", { all: true, path: workspace.path }), /ignored.log/);
    await mkdir(join(workspace.path, "empty"));
    assert.equal(await workspace.call("list", { path: "empty" }), "empty is empty.");
    await assert.rejects(workspace.call("list", { path: "b.txt" }), /b.txt: not a folder/);
    await assert.rejects(workspace.call("list", { path: "missing" }), /missing: not found/);
  });

  it("shows at most 1,000 entries of a large folder, as glob does", async () => {
    const fileEntries = Array.from({ length: 1500 }, (_, i) => [`f${String(i).padStart(4, "0")}`, ""] as const);
    await using workspace = await createWorkspace(Object.fromEntries(fileEntries));
    const lines = (await workspace.call("list", {})).split("\n");
    assert.equal(lines.length, 1001);
    assert.equal(lines[999], "f0999");
    assert.match(lines[1000]!, /more entries exist/);
    assert.match(
      await workspace.call("glob", { pattern: "*" }),
      /\[1000 of 1500 files; use a narrower pattern or path\]$/,
    );
  });
});

describe("glob", () => {
  it("accepts absolute patterns, reports when nothing matches, and rejects patterns with a parent folder", async () => {
    await using workspace = await createWorkspace({ "src/a.ts": "", "src/b.js": "", ".gitignore": "b.js" });
    assert.equal(await workspace.call("glob", { pattern: join(workspace.path, "src/*.ts") }), "src/a.ts");
    assert.equal(
      await workspace.call("glob", { pattern: "b.js" }),
      "No file matches b.js in the project folder (1 entries are hidden by .gitignore; set all to include them).",
    );
    await assert.rejects(workspace.call("glob", { pattern: "../*" }), /Set path instead/);
  });
});

describe("grep", () => {
  it("shows files, lines, context and counts, and skips binary files", async () => {
    await using workspace = await createWorkspace({
      "a.txt": "one\r\ntwo\r\nthree\r\nfour\r\nfive\r\ntwo\r\n",
      "b/c.md": "Two\n",
      bin: Buffer.from("two\0two"),
      "latin.txt": Buffer.from("tw\xe9 two\n", "latin1"),
    });
    assert.equal(await workspace.call("grep", { pattern: "two" }), "a.txt\n2:two\n6:two\nlatin.txt\n1:tw\uFFFD two");
    assert.equal(
      await workspace.call("grep", { pattern: "^two$", context: 1 }),
      "a.txt\n1-one\n2:two\n3-three\n--\n5-five\n6:two",
    );
    assert.equal(await workspace.call("grep", { pattern: "(?i)TWO", glob: "*.md" }), "b/c.md\n1:Two");
    assert.equal(
      await workspace.call("grep", { pattern: "t", output: "files", ignore_case: true }),
      "a.txt\nb/c.md\nlatin.txt",
    );
    assert.equal(
      await workspace.call("grep", { pattern: "t", output: "count", path: "a.txt" }),
      "a.txt: 3\n[3 matching lines in 1 files]",
    );
    assert.match(
      await workspace.call("grep", { pattern: "t", limit: 1 }),
      /^a.txt\n2:two\n\[1 matching lines shown, more exist/,
    );
    assert.equal(
      await workspace.call("grep", { pattern: "a.c(", literal: true }),
      "No match for a.c( in the project folder.",
    );
    assert.equal(await workspace.call("grep", { pattern: "\\p{L}ne" }), "a.txt\n1:one");
    await assert.rejects(workspace.call("grep", { pattern: "(" }), /pattern: Invalid regular expression.*literal/);
    await assert.rejects(workspace.call("grep", { pattern: "x", path: "nope" }), /nope: not found/);
  });

  it("shows only the matching part of a long line", async () => {
    await using workspace = await createWorkspace({ "min.js": `${"x".repeat(100_000)}needle${"y".repeat(100_000)}` });
    const text = await workspace.call("grep", { pattern: "needle" });
    assert.ok(text.length < 400);
    assert.match(text, /needle/);
  });

  it("ends catastrophic patterns without blocking the event loop", async () => {
    await using workspace = await createWorkspace({ "evil.txt": `${"a".repeat(60)}!\n` });
    let tickCount = 0;
    const timer = setInterval(() => tickCount++, 10);
    assert.equal(await workspace.call("grep", { pattern: "(a+)+$" }), "No match for (a+)+$ in the project folder.");
    // This syntax needs PCRE2.
    await assert.rejects(
      workspace.call("grep", { pattern: "(a+)+\\b(?=x)$" }),
      /takes too long\. Avoid nested repetition/,
    );
    clearInterval(timer);
    assert.ok(tickCount > 0, "the event loop was not blocked");
  });

  it("rejects with the abort reason when the call is cancelled", async () => {
    await using workspace = await createWorkspace({ "a.txt": "a\n" });
    // The search waits for this named pipe.
    execFileSync("mkfifo", [join(workspace.path, ".gitignore")]);
    const abortController = new AbortController();
    const reason = new Error("cancelled");
    // Time: the search has probably begun when the timer fires. The result is the same otherwise.
    setTimeout(() => abortController.abort(reason), 100);
    await assert.rejects(
      callTool(tools.get("grep")!, { pattern: "a" }, { ...workspace.context, signal: abortController.signal }),
      reason,
    );
  });

  it("reports an incomplete search when its time is over", { skip: process.platform !== "linux" }, async () => {
    await using workspace = await createWorkspace({ "a.txt": "a\n" });
    execFileSync("mkfifo", [join(workspace.path, ".gitignore")]);
    const grep = grepTool({ allowPaths: [], deniedPaths: [], searchTimeoutMs: 100 });
    const { text } = await callTool(grep, { pattern: "a" }, workspace.context);
    assert.match(text, /\[too large to search completely; narrow path or glob\]/);
  });

  it("supports POSIX classes, lookbehind, back-references and multi-line patterns in UTF-8 and UTF-16", async () => {
    const text = "TODO x\n foo\nABCDE\nsome\nlast ERROR";
    const encodeUtf16 = (order: "le" | "be"): Buffer => {
      const bytes = Buffer.from(`\uFEFF${text}`, "utf16le");
      return order === "le" ? bytes : bytes.swap16();
    };
    await using workspace = await createWorkspace({
      "a.txt": text,
      "be.txt": encodeUtf16("be"),
      "bom.txt": `\uFEFF${text}`,
      "le.txt": encodeUtf16("le"),
    });
    for (const [pattern, expectedLines] of [
      ["[[:space:]]x", ["1:TODO x"]],
      ["[[:upper:]]{5}", ["3:ABCDE", "5:last ERROR"]],
      ["TODO\\>", ["1:TODO x"]],
      ["ERROR\\Z", ["5:last ERROR"]],
      ["\\Qsome\\E", ["4:some"]],
      ["(?<=AB)C(?=DE)", ["3:ABCDE"]],
      ["(\\w)\\1", ["2: foo", "5:last ERROR"]],
      ["x\\n foo", ["1:TODO x", "2: foo"]],
      ["(?s)foo.*some", ["2: foo", "3:ABCDE", "4:some"]],
      ["-x|TODO", ["1:TODO x"]],
    ] as const) {
      const expectedFiles = ["a.txt", "be.txt", "bom.txt", "le.txt"].map((name) => [name, ...expectedLines].join("\n"));
      assert.equal(await workspace.call("grep", { pattern }), expectedFiles.join("\n"), pattern);
    }
    assert.match(await workspace.call("grep", { pattern: "foo\nABC", literal: true }), /^a\.txt\n2: foo\n3:ABCDE\nbe/);
    await assert.rejects(
      workspace.call("grep", { pattern: "a{2,1}" }),
      /pattern: Invalid regular expression: .*literal/,
    );
    await assert.rejects(workspace.call("grep", { pattern: "a", glob: "[" }), /invalid glob: unclosed character class/);
  });

  it("finds multi-line patterns in files with CRLF, and matches that span lines if no line matches", async () => {
    const text = "foo {\n  bar(1)\n}\nlast ERROR\n";
    await using workspace = await createWorkspace({ "crlf.txt": text.replaceAll("\n", "\r\n"), "lf.txt": text });
    for (const [pattern, expectedLines, note = ""] of [
      ["foo \\{\\n  bar", ["1:foo {", "2:  bar(1)"]],
      ["foo \\{\n+  bar", ["1:foo {", "2:  bar(1)"]],
      ["[^\\n]+\\{(?:\\n|x)  \\Qbar(\\E", ["1:foo {", "2:  bar(1)"]],
      ["foo \\{\\R  bar", ["1:foo {", "2:  bar(1)"]],
      ["foo[\\s\\S]*?bar", ["1:foo {", "2:  bar(1)"]],
      ["(?x) foo\n \\s \\{", ["1:foo {"]],
      ["ERROR\\z", ["4:last ERROR"]],
      ["foo\\s*\\{\\s*bar", ["1:foo {", "2:  bar(1)"], "\n[no single line matches; these matches span lines]"],
      ["\\{[^}]*\\}", ["1:foo {", "2:  bar(1)", "3:}"], "\n[no single line matches; these matches span lines]"],
      ["bar[^x]+", ["2:  bar(1)"]],
    ] as const) {
      const expectedFiles = ["crlf.txt", "lf.txt"].map((name) => [name, ...expectedLines].join("\n"));
      assert.equal(await workspace.call("grep", { pattern }), expectedFiles.join("\n") + note, pattern);
    }
    const literalPattern = { pattern: "foo {\n  bar(", literal: true, output: "files" };
    assert.equal(await workspace.call("grep", literalPattern), "crlf.txt\nlf.txt");
    assert.equal(
      await workspace.call("grep", { pattern: "zzz\\|ERROR" }),
      "No match for zzz\\|ERROR in the project folder.\n[\\| matches a literal |; use | for alternatives]",
    );
  });

  it("quotes names with line feeds, reports partly searched binary files, and follows no link", async () => {
    await using workspace = await createWorkspace({
      "a\nb": "needle\n",
      "-n": "needle\n",
      ": WARNING: x\nc": "needle\n",
      "late.bin": "",
    });
    await writeFile(join(workspace.path, "late.bin"), `needle\n${"x\n".repeat(100_000)}\0needle\n`);
    await symlink("/etc/passwd", join(workspace.path, "link"));
    assert.equal(
      await workspace.call("grep", { pattern: "needle|root" }),
      [
        '-n\n1:needle\n": WARNING: x\\nc"\n1:needle\n"a\\nb"\n1:needle\nlate.bin\n1:needle',
        "[not searched completely, binary: late.bin (195.3 KiB)]",
      ].join("\n"),
    );
    assert.equal(await workspace.call("glob", { pattern: "*" }), '-n\n": WARNING: x\\nc"\n"a\\nb"\nlate.bin');
    assert.match(await workspace.call("grep", { pattern: "needle", path: "-n" }), /^-n\n1:needle$/);
  });

  it("applies globs from the project and from the folder, and skips ignored, denied and too large files", async () => {
    await using workspace = await createWorkspace({
      ".gitignore": "*.log\n",
      "src/a/one.ts": "x",
      "src/a/two.log": "x",
      "src/b.ts": "x",
      "home/token.ts": "x",
    });
    const grep = grepTool({ allowPaths: [], deniedPaths: [join(workspace.path, "home")] });
    const searchFiles = async (input: object) =>
      (await callTool(grep, { pattern: "x", output: "files", ...input }, workspace.context)).text;
    assert.equal(await searchFiles({}), "src/a/one.ts\nsrc/b.ts");
    assert.equal(
      await searchFiles({ all: true, output: "count" }),
      "src/a/one.ts: 1\nsrc/a/two.log: 1\nsrc/b.ts: 1\n[3 matching lines in 3 files]",
    );
    assert.equal(await searchFiles({ path: "src", glob: "src/a/*" }), "src/a/one.ts");
    assert.equal(await searchFiles({ path: "src", glob: "a/*" }), "src/a/one.ts");
    assert.equal(await searchFiles({ path: "src", glob: "a/**", all: true }), "src/a/one.ts\nsrc/a/two.log");
    assert.equal(await searchFiles({ glob: "*.log" }), "No match for x in the project folder (*.log).");
    await truncate(join(workspace.path, "src/b.ts"), 513 * 1024 * 1024);
    const note = "\n[not searched, too large: src/b.ts (513.0 MiB)]";
    assert.equal(await searchFiles({ glob: "*.ts" }), `src/a/one.ts${note}`);
    assert.equal(await searchFiles({ path: "src/b.ts" }), `No match for x in src/b.ts.${note}`);
    assert.equal(await searchFiles({ glob: "*.log" }), "No match for x in the project folder (*.log).");
  });

  it("shows matches in the order of their paths, with and without a limit, also in a file of 100 MB", async () => {
    const line = "some words of a line\n";
    const fileNames = Array.from({ length: 60 }, (_, n) => `d${n % 7}/f${n}.txt`);
    await using workspace = await createWorkspace(
      Object.fromEntries(fileNames.map((name) => [name, line.repeat(1_000)])),
    );
    await writeFile(join(workspace.path, "large.txt"), `${line.repeat(5_000_000)}a needle\n`);
    const matches = await workspace.call("grep", { pattern: "words", limit: 3 });
    assert.match(matches, /^d0\/f0\.txt\n1:some.*\n2:some.*\n3:some.*\n\[3 matching lines shown, more exist/);
    assert.equal(await workspace.call("grep", { pattern: "needle" }), "large.txt\n5000001:a needle");
    const resultPaths = (await workspace.call("grep", { pattern: "words", output: "files" })).split("\n");
    assert.deepEqual(resultPaths, [...fileNames, "large.txt"].sort());
  });

  it("searches 200 files and continues if a folder cannot be read", async () => {
    const fileEntries = Array.from(
      { length: 200 },
      (_, i) => [`d${i % 7}/f${String(i).padStart(3, "0")}.txt`, `number ${i}\n`] as const,
    );
    await using workspace = await createWorkspace(Object.fromEntries(fileEntries));
    assert.match(
      await workspace.call("grep", { pattern: "number", output: "count" }),
      /\[200 matching lines in 200 files\]$/,
    );
    if (process.getuid?.() !== 0) await chmod(join(workspace.path, "d0"), 0);
    assert.equal(await workspace.call("grep", { pattern: "number 199$" }), "d3/f199.txt\n1:number 199");
  });
});

describe("read", () => {
  it("numbers lines, pages long files, truncates long lines, and suggests a similar name", async () => {
    await using workspace = await createWorkspace({
      "a.txt": Array.from({ length: 3000 }, (_, i) => `line ${i + 1}`).join("\n"),
      "long.txt": `${"é".repeat(5000)}\nshort\n`,
      "wide.txt": `${"w".repeat(1000)}\n`.repeat(100),
      "empty.txt": "",
      "one-line.txt": "x",
    });
    assert.match(
      await workspace.call("read", { path: "a.txt" }),
      /^1\tline 1\n[^]*\n2000\tline 2000\n\[lines 1-2000 of 3000; continue with offset 2001\]$/,
    );
    assert.equal(await workspace.call("read", { path: "a.txt", offset: "2999" }), "2999\tline 2999\n3000\tline 3000");
    await assert.rejects(
      workspace.call("read", { path: "a.txt", offset: 3001 }),
      /has 3000 lines; line 3001 does not exist/,
    );
    assert.equal(
      await workspace.call("read", { path: "long.txt" }),
      `1\t${"é".repeat(2000)}… [3,000 more characters in this line]\n2\tshort`,
    );
    const wideText = await workspace.call("read", { path: "wide.txt" });
    assert.match(wideText, /\[lines 1-29 of 100; continue with offset 30\]$/);
    assert.equal(await workspace.call("read", { path: "empty.txt" }), "empty.txt is empty.");
    assert.equal(await workspace.call("read", { file_path: join(workspace.path, "one-line.txt") }), "1\tx");
    await assert.rejects(workspace.call("read", { path: "A.md" }), /not found. Did you mean a.txt\?/);
  });

  it("returns images, and rejects too large images and other binary files with their type", async () => {
    const png = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    );
    await using workspace = await createWorkspace({
      "dot.png": png,
      "doc.pdf": "%PDF-1.7\n",
      app: Buffer.from("\x7fELF\x02\x01\0", "latin1"),
      "big.png": Buffer.concat([png, Buffer.alloc(6_000_000)]),
    });
    const output = await callTool(tools.get("read")!, { path: "dot.png" }, workspace.context);
    assert.deepEqual(output.parts, [{ type: "image", mediaType: "image/png", data: png.toString("base64") }]);
    await assert.rejects(
      workspace.call("read", { path: "doc.pdf" }),
      /is a PDF document \(9 bytes\) and cannot be shown/,
    );
    await assert.rejects(workspace.call("read", { path: "app" }), /an ELF executable/);
    await assert.rejects(workspace.call("read", { path: "big.png" }), /at most 5 MiB/);
  });
});
