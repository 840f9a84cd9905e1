import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { builtinTools } from "gantry";
import type { Tool } from "gantry";
import { callTool, temporaryFolder, toolContext } from "../../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
const tool = (name: string): Tool => tools.get(name)!;

async function project(content: string | Buffer, name = "a.ts") {
  const folder = await temporaryFolder();
  const file = join(folder.path, name);
  await writeFile(file, content);
  const context = toolContext(folder.path);
  return {
    file,
    context,
    now: () => readFile(file, "utf8"),
    edit: (old_string: string, new_string: string, options: object = {}) =>
      callTool(tool("edit"), { path: name, old_string, new_string, ...options }, context),
    read: () => callTool(tool("read"), { path: name }, context),
    write: (text: string) => callTool(tool("write"), { path: name, content: text }, context),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

describe("the preview of an edit", () => {
  const shownOf = async (content: string, edits: readonly (readonly [string, string])[]) => {
    await using p = await project(content);
    const all = edits.map(([old_string, new_string]) => ({ old_string, new_string, replace_all: false }));
    const reach = { projectDir: join(p.file, ".."), signal: AbortSignal.timeout(10_000) };
    const many = await tool("multiedit").preview!({ path: "a.ts", edits: all }, reach);
    const [singleEdit] = all;
    if (all.length === 1) assert.deepEqual(await tool("edit").preview!({ path: "a.ts", ...singleEdit }, reach), many);
    assert.equal(await p.now(), content);
    return { ...many, diff: many.diff?.map(({ path, ...texts }) => (assert.equal(path, p.file), texts)) };
  };

  it("returns the diff with a note if the match is not exact, and no diff if it is", async () => {
    assert.deepEqual(await shownOf("a\n\tif x {\n\t\ty()\n\t}\n", [["if x {\n    y()\n}", "if x {\n    z()\n}"]]), {
      diff: [{ oldText: "a\n\tif x {\n\t\ty()\n\t}\n", newText: "a\n\tif x {\n\t\tz()\n\t}\n" }],
      note: "The text was found at line 2 (inexact match: indentation differs; the new text was indented like the file).",
    });
    const exact = await shownOf("one\ntwo\n", [
      ["one", "1"],
      ["two", "2"],
    ]);
    assert.deepEqual(exact, { diff: undefined }, "the arguments say it");
    const many = "line\n".repeat(60_000);
    assert.deepEqual(await shownOf(`${many}x = 1 \n${many}`, [["x = 1\nline\nline", "x = 2\nline\nline"]]), {
      diff: [
        {
          oldText: "line\nline\nline\nx = 1 \nline\nline\nline",
          newText: "line\nline\nline\nx = 2 \nline\nline\nline",
        },
      ],
      note: "The text was found at line 60001 (inexact match: trailing whitespace differs).",
    });
  });

  it("rejects an edit whose text is not found", async () => {
    await assert.rejects(shownOf("one\n", [["two", "2"]]), /not found/);
  });
});

describe("the preview of a write", () => {
  const shownOf = (projectDir: string, path: string, content: string, ms = 10_000) =>
    tool("write").preview!({ path, content }, { projectDir, signal: AbortSignal.timeout(ms) });

  it("returns the diff that the tool then writes, and nothing for a new file", async () => {
    await using p = await project("\uFEFFone\r\ntwo\r\n");
    const folder = join(p.file, "..");
    assert.deepEqual(await shownOf(folder, "a.ts", "1\n2\n"), {
      diff: [{ path: p.file, oldText: "\uFEFFone\r\ntwo\r\n", newText: "\uFEFF1\r\n2\r\n" }],
    });
    assert.deepEqual(await shownOf(folder, "new/b.ts", "x"), {});
    // The tool writes exactly what the preview showed.
    const { diff } = await p.write("1\n2\n");
    assert.equal(diff![0]!.newText, "\uFEFF1\r\n2\r\n");
  });

  it("returns a note without a diff for a file that is large or not text", async () => {
    const note = "It replaces a file whose content is not shown: it is too large, or not text.";
    for (const content of [
      Buffer.alloc(256 * 1024 + 1, "a"),
      Buffer.from([0, 1, 2, 255]),
      Buffer.from("\uFEFFx", "utf16le"),
    ]) {
      await using p = await project(content);
      assert.deepEqual(await shownOf(join(p.file, ".."), "a.ts", "x"), { note });
    }
    await using largestShown = await project(Buffer.alloc(256 * 1024, "a"));
    assert.equal((await shownOf(join(largestShown.file, ".."), "a.ts", "x")).diff?.length, 1);
  });

  it("rejects paths that the tool cannot open", async () => {
    await using p = await project("one");
    const folder = join(p.file, "..");
    await using outside = await project("secret");
    await symlink(outside.file, join(folder, "link"));
    await mkdir(join(folder, ".git"));
    await writeFile(join(folder, ".git", "config"), "secret");
    await promisify(execFile)("mkfifo", [join(folder, "pipe")]);
    for (const path of ["link", outside.file, "../x", ".git/config", "pipe", "."])
      await assert.rejects(shownOf(folder, path, "x"), { name: "PathError" }, path);
  });
});

describe("edit", () => {
  it("replaces a unique text, keeps the file mode, and returns line and diff", async () => {
    await using p = await project("one\ntwo\nthree\n");
    await chmod(p.file, 0o755);
    const output = await p.edit("two", "2");
    assert.equal(await p.now(), "one\n2\nthree\n");
    assert.equal((await stat(p.file)).mode & 0o777, 0o755);
    assert.equal(output.text, "Edited a.ts: replaced at line 2.");
    assert.deepEqual(output.diff, [{ path: p.file, oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\n" }]);
    assert.deepEqual(output.locations, [{ path: p.file, line: 2 }]);
    assert.deepEqual(await readdir(join(p.file, "..")), ["a.ts"]);
  });

  it("rejects a text that occurs twice with its count and lines, unless replace_all is set", async () => {
    await using p = await project("x = 1\ny\nx = 1\n");
    await assert.rejects(p.edit("x = 1", "z"), /occurs 2 times \(lines 1, 3\).*replace_all/);
    assert.equal(
      (await p.edit("x = 1", "z", { replace_all: "true" })).text,
      "Edited a.ts: replaced 2 occurrences from line 1.",
    );
    assert.equal(await p.now(), "z\ny\nz\n");
  });

  it("inserts $ and backslash sequences literally", async () => {
    await using p = await project("price\n");
    await p.edit("price", "$& $1 $$ \\n");
    assert.equal(await p.now(), "$& $1 $$ \\n\n");
  });

  it("applies an edit whose match is not exact, and reports the difference", async () => {
    await using p = await project("\uFEFFfunction a() { \r\n\treturn “b”;\r\n}\r\n");
    const output = await p.edit('  return "b";\n', '  const c = 1;\n  return "b";\n');
    assert.equal(
      output.text,
      "Edited a.ts: replaced at line 2 (inexact match: indentation, quotes, dashes or spaces differ; the new text was indented like the file).",
    );
    assert.equal(await p.now(), "\uFEFFfunction a() { \r\n\tconst c = 1;\r\n\treturn “b”;\r\n}\r\n");
    const several = await callTool(
      tool("multiedit"),
      {
        path: "a.ts",
        edits: [
          { old_string: "function a() {\n", new_string: "function b() {\n" },
          { old_string: "1\tfunction b() {", new_string: "1\tfunction c() {" },
        ],
      },
      p.context,
    );
    assert.equal(
      several.text,
      "Edited a.ts: replaced at line 1 (inexact match: trailing whitespace differs); " +
        "at line 1 (inexact match: without the line numbers).",
    );
  });

  it("reports the first line that differs if old_string is not found", async () => {
    await using p = await project("function a() {\n\treturn computeTotal(items);\n}\n");
    await assert.rejects(p.edit("return computeTotals(item);", "x"), /Line 2 is most similar: "\\treturn comp/);
    await assert.rejects(
      p.edit("function a() {\n\treturn other();", "x"),
      /Line 2 is most similar: "\\treturn computeTotal.*where old_string has "\\treturn other\(\);"\. The line before it matches\./,
    );
    await assert.rejects(p.edit("function a() {\n\treturn computeTotal(items);\n}\nmore", "x"), /ends after line 3/);
    await assert.rejects(p.edit("qqqqqqqq", "x"), /and no similar text/);
    await assert.rejects(p.edit("function", "function"), /the same/);
  });

  it("rejects a file that changed since it was read, until it is read again", async () => {
    await using p = await project("one\n");
    await p.read();
    await utimes(p.file, new Date(), new Date());
    await p.edit("one", "two");
    await p.edit("two", "three");
    await writeFile(p.file, "three and more\n");
    await assert.rejects(p.edit("three", "four"), /changed since you read it.*Read it again/);
    await assert.rejects(p.write("new"), /changed since you read it/);
    await p.read();
    await p.edit("three", "four");
    assert.equal(await p.now(), "four and more\n");
  });

  it("keeps CRLF, BOM and bytes that are not UTF-8", async () => {
    const latin = Buffer.from("\xef\xbb\xbffirst\r\nsecond caf\xe9\r\nthird\r\n", "latin1");
    await using p = await project(latin);
    assert.match((await p.read()).text, /^1\tfirst\n2\tsecond caf\uFFFD\n3\tthird\n\[not valid UTF-8/);
    await p.edit("third\n", "third\nfourth ü\n");
    await p.edit("first\nsecond", "1\n2");
    assert.deepEqual(
      await readFile(p.file),
      Buffer.from("\xef\xbb\xbf1\r\n2 caf\xe9\r\nthird\r\nfourth \xc3\xbc\r\n", "latin1"),
    );
  });

  it("applies all of 20 concurrent edits of one file", async () => {
    await using p = await project(Array.from({ length: 20 }, (_, i) => `line ${i};\n`).join(""));
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        callTool(
          tool("edit"),
          { path: "a.ts", old_string: `line ${i};`, new_string: `done ${i};` },
          toolContext(p.context.projectDir),
        ),
      ),
    );
    assert.equal(await p.now(), Array.from({ length: 20 }, (_, i) => `done ${i};\n`).join(""));
  });

  it("rejects binary files and UTF-16", async () => {
    await using p = await project(Buffer.from([0, 1, 2]));
    await assert.rejects(p.edit("a", "b"), /not a text file/);
    await using wide = await project(Buffer.from("\uFEFFhello", "utf16le"));
    await assert.rejects(wide.edit("hello", "b"), /utf-16le/);
    assert.equal((await wide.read()).text, "1\thello");
  });
});

describe("multiedit", () => {
  it("applies all edits in order, or none", async () => {
    await using p = await project("a\nb\nc\n");
    const call = (edits: unknown) => callTool(tool("multiedit"), { path: "a.ts", edits }, p.context);
    const output = await call([
      { old_string: "a", new_string: "A" },
      { old_string: "A\nb", new_string: "A\nB" },
    ]);
    assert.equal(output.text, "Edited a.ts: replaced at line 1; at line 1.");
    assert.equal(await p.now(), "A\nB\nc\n");
    await assert.rejects(
      call([
        { old_string: "c", new_string: "C" },
        { old_string: "missing", new_string: "" },
      ]),
      /edit 2 of 2; none was applied/,
    );
    assert.equal(await p.now(), "A\nB\nc\n");
  });
});

describe("edits that make a file too large", () => {
  it("are rejected with less than 256 MiB of memory, and leave the file unchanged", async () => {
    const block = `a${"x".repeat(999)}`;
    await using p = await project(block.repeat(2));
    const doubles = Array.from({ length: 200 }, () => ({
      old_string: "a",
      new_string: `${block}a`,
      replace_all: true,
    }));
    const before = process.memoryUsage().rss;
    await assert.rejects(
      callTool(tool("multiedit"), { path: "a.ts", edits: doubles }, p.context),
      /edit \d+ of 200; none was applied\): the result would be larger than 10485760 bytes/,
    );
    assert.ok(process.memoryUsage().rss - before < 256 * 1024 * 1024);
    const growingEdit = { path: "a.ts", old_string: "a", new_string: "x".repeat(6_000_000), replace_all: true };
    await assert.rejects(
      callTool(tool("edit"), growingEdit, p.context),
      /the result would be larger than 10485760 bytes/,
    );
    assert.equal(await p.now(), block.repeat(2));
  });
});

describe("write", () => {
  it("creates folders, replaces the whole file, and keeps its mode, CRLF and BOM", async () => {
    await using p = await project("\uFEFFa\r\nb\r\n");
    await chmod(p.file, 0o640);
    const output = await p.write("x\ny\nz\n");
    assert.equal(
      output.text,
      "Replaced a.ts: 3 lines, previously 2 lines (kept the CRLF line endings and byte order mark).",
    );
    assert.equal(await p.now(), "\uFEFFx\r\ny\r\nz\r\n");
    assert.equal((await stat(p.file)).mode & 0o777, 0o640);
    const made = await callTool(tool("write"), { path: "deep/er/new.txt", content: "hi" }, p.context);
    assert.equal(made.text, "Created deep/er/new.txt: 1 line.");
    assert.equal(made.diff![0]!.oldText, null);
    assert.equal(await readFile(join(p.context.projectDir, "deep/er/new.txt"), "utf8"), "hi");
    await callTool(tool("edit"), { path: "deep/er/new.txt", old_string: "hi", new_string: "ho" }, p.context);
    await assert.rejects(callTool(tool("write"), { path: "a.ts/x", content: "" }, p.context), /not a folder|not found/);
  });

  it("replaces a file atomically for concurrent readers, and leaves no temporary file", async () => {
    const texts = ["a".repeat(200_000), "b".repeat(300_000)];
    await using p = await project(texts[0]!);
    let writing = true;
    const writes = (async () => {
      for (let i = 0; i < 20; i++) await p.write(texts[i % 2]!);
      writing = false;
    })();
    while (writing) assert.ok(texts.includes(await p.now()));
    await writes;
    assert.deepEqual(await readdir(p.context.projectDir), ["a.ts"]);
  });
});

it("edit rejects a file that changes while the edit is prepared, and keeps that change", async () => {
  await using p = await project("old 0\n");
  const { signal } = new AbortController();
  let saves = 0;
  // The tool checks its signal after it has created the new text, and before it checks the file again.
  signal.throwIfAborted = () => writeFileSync(p.file, `old ${++saves}\n`);
  const args = { path: "a.ts", old_string: "old", new_string: "new" };
  await assert.rejects(callTool(tool("edit"), args, { ...p.context, signal }), /changed just now\. Read it again/);
  assert.equal(await p.now(), `old ${saves}\n`);
});
