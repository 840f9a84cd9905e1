import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { builtinTools } from "gantry";
import type { Tool } from "gantry";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
const getTool = (name: string): Tool => tools.get(name)!;

async function createProject(content: string | Buffer, name = "a.ts") {
  const folder = await createTemporaryFolder();
  const file = join(folder.path, name);
  await writeFile(file, content);
  const context = createToolContext(folder.path);
  return {
    file,
    context,
    readText: () => readFile(file, "utf8"),
    edit: (old_string: string, new_string: string, options: object = {}) =>
      callTool(getTool("edit"), { path: name, old_string, new_string, ...options }, context),
    read: () => callTool(getTool("read"), { path: name }, context),
    write: (text: string) => callTool(getTool("write"), { path: name, content: text }, context),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

describe("the preview of an edit", () => {
  const previewEdits = async (content: string, edits: readonly (readonly [string, string])[]) => {
    await using project = await createProject(content);
    const editInputs = edits.map(([old_string, new_string]) => ({ old_string, new_string, replace_all: false }));
    const previewContext = { projectDir: join(project.file, ".."), signal: AbortSignal.timeout(10_000) };
    const multieditPreview = await getTool("multiedit").preview!({ path: "a.ts", edits: editInputs }, previewContext);
    const [singleEdit] = editInputs;
    if (editInputs.length === 1)
      assert.deepEqual(
        await getTool("edit").preview!({ path: "a.ts", ...singleEdit }, previewContext),
        multieditPreview,
      );
    assert.equal(await project.readText(), content);
    return {
      ...multieditPreview,
      diff: multieditPreview.diff?.map(({ path, ...texts }) => (assert.equal(path, project.file), texts)),
    };
  };

  it("returns the diff with a note if the match is not exact, and no diff if the match is exact", async () => {
    assert.deepEqual(
      await previewEdits("a\n\tif x {\n\t\ty()\n\t}\n", [["if x {\n    y()\n}", "if x {\n    z()\n}"]]),
      {
        diff: [{ oldText: "a\n\tif x {\n\t\ty()\n\t}\n", newText: "a\n\tif x {\n\t\tz()\n\t}\n" }],
        note: "The text was found at line 2 (inexact match: indentation differs; the new text was indented like the file).",
      },
    );
    const exactPreview = await previewEdits("one\ntwo\n", [
      ["one", "1"],
      ["two", "2"],
    ]);
    assert.deepEqual(exactPreview, { diff: undefined }, "an exact match needs no diff besides the arguments");
    const fillerLines = "line\n".repeat(60_000);
    assert.deepEqual(
      await previewEdits(`${fillerLines}x = 1 \n${fillerLines}`, [["x = 1\nline\nline", "x = 2\nline\nline"]]),
      {
        diff: [
          {
            oldText: "line\nline\nline\nx = 1 \nline\nline\nline",
            newText: "line\nline\nline\nx = 2 \nline\nline\nline",
          },
        ],
        note: "The text was found at line 60001 (inexact match: trailing whitespace differs).",
      },
    );
  });

  it("returns no diff for a change of more than 512 KiB, also if it has fewer characters", async () => {
    assert.deepEqual(await previewEdits("x = 1 \ny\n", [["x = 1\ny", `x = ${"€".repeat(180_000)}\ny`]]), {
      diff: undefined,
      note: "The text was found at line 1 (inexact match: trailing whitespace differs).",
    });
  });

  it("rejects an edit whose text is not found", async () => {
    await assert.rejects(previewEdits("one\n", [["two", "2"]]), /not found/);
  });
});

describe("the preview of a write", () => {
  const MAX_PREVIEW_BYTES = 256 * 1024;
  const previewWrite = (projectDir: string, path: string, content: string, timeoutMs = 10_000) =>
    getTool("write").preview!({ path, content }, { projectDir, signal: AbortSignal.timeout(timeoutMs) });

  it("returns the diff that the tool then writes, and an empty preview for a new file", async () => {
    await using project = await createProject("\uFEFFone\r\ntwo\r\n");
    const folder = join(project.file, "..");
    assert.deepEqual(await previewWrite(folder, "a.ts", "1\n2\n"), {
      diff: [{ path: project.file, oldText: "\uFEFFone\r\ntwo\r\n", newText: "\uFEFF1\r\n2\r\n" }],
    });
    assert.deepEqual(await previewWrite(folder, "new/b.ts", "x"), {});
    // The tool writes exactly what the preview showed.
    const { diff } = await project.write("1\n2\n");
    assert.equal(diff![0]!.newText, "\uFEFF1\r\n2\r\n");
  });

  it("returns a note without a diff for a file that is large or not text", async () => {
    const note = "It replaces a file whose content is not shown: it is too large, or not text.";
    for (const content of [
      Buffer.alloc(MAX_PREVIEW_BYTES + 1, "a"),
      Buffer.from([0, 1, 2, 255]),
      Buffer.from("\uFEFFx", "utf16le"),
    ]) {
      await using project = await createProject(content);
      assert.deepEqual(await previewWrite(join(project.file, ".."), "a.ts", "x"), { note });
    }
    await using largestProject = await createProject(Buffer.alloc(MAX_PREVIEW_BYTES, "a"));
    assert.equal((await previewWrite(join(largestProject.file, ".."), "a.ts", "x")).diff?.length, 1);
  });

  it("rejects paths that the tool cannot open", async () => {
    await using project = await createProject("one");
    const folder = join(project.file, "..");
    await using outsideProject = await createProject("secret");
    await symlink(outsideProject.file, join(folder, "link"));
    await mkdir(join(folder, ".git"));
    await writeFile(join(folder, ".git", "config"), "secret");
    await promisify(execFile)("mkfifo", [join(folder, "pipe")]);
    for (const path of ["link", outsideProject.file, "../x", ".git/config", "pipe", "."])
      await assert.rejects(previewWrite(folder, path, "x"), { name: "PathError" }, path);
  });
});

describe("edit", () => {
  it("replaces a unique text, keeps the file mode, and returns line and diff", async () => {
    await using project = await createProject("one\ntwo\nthree\n");
    await chmod(project.file, 0o755);
    const output = await project.edit("two", "2");
    assert.equal(await project.readText(), "one\n2\nthree\n");
    assert.equal((await stat(project.file)).mode & 0o777, 0o755);
    assert.equal(output.text, "Edited a.ts: replaced at line 2.");
    assert.deepEqual(output.diff, [{ path: project.file, oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\n" }]);
    assert.deepEqual(output.locations, [{ path: project.file, line: 2 }]);
    assert.deepEqual(await readdir(join(project.file, "..")), ["a.ts"]);
  });

  it("rejects a text that occurs twice with its count and lines, unless replace_all is set", async () => {
    await using project = await createProject("x = 1\ny\nx = 1\n");
    await assert.rejects(project.edit("x = 1", "z"), /occurs 2 times \(lines 1, 3\).*replace_all/);
    assert.equal(
      (await project.edit("x = 1", "z", { replace_all: "true" })).text,
      "Edited a.ts: replaced 2 occurrences from line 1.",
    );
    assert.equal(await project.readText(), "z\ny\nz\n");
  });

  it("inserts $ and backslash sequences literally", async () => {
    await using project = await createProject("price\n");
    await project.edit("price", "$& $1 $$ \\n");
    assert.equal(await project.readText(), "$& $1 $$ \\n\n");
  });

  it("applies an edit whose match is not exact, and reports the difference", async () => {
    await using project = await createProject("\uFEFFfunction a() { \r\n\treturn “b”;\r\n}\r\n");
    const output = await project.edit('  return "b";\n', '  const c = 1;\n  return "b";\n');
    assert.equal(
      output.text,
      "Edited a.ts: replaced at line 2 (inexact match: indentation, quotes, dashes or spaces differ; the new text was indented like the file).",
    );
    assert.equal(await project.readText(), "\uFEFFfunction a() { \r\n\tconst c = 1;\r\n\treturn “b”;\r\n}\r\n");
    const multieditOutput = await callTool(
      getTool("multiedit"),
      {
        path: "a.ts",
        edits: [
          { old_string: "function a() {\n", new_string: "function b() {\n" },
          { old_string: "1\tfunction b() {", new_string: "1\tfunction c() {" },
        ],
      },
      project.context,
    );
    assert.equal(
      multieditOutput.text,
      "Edited a.ts: replaced at line 1 (inexact match: trailing whitespace differs); " +
        "at line 1 (inexact match: without the line numbers).",
    );
  });

  it("reports the first line that differs if old_string is not found", async () => {
    await using project = await createProject("function a() {\n\treturn computeTotal(items);\n}\n");
    await assert.rejects(project.edit("return computeTotals(item);", "x"), /Line 2 is most similar: "\\treturn comp/);
    await assert.rejects(
      project.edit("function a() {\n\treturn other();", "x"),
      /Line 2 is most similar: "\\treturn computeTotal.*where old_string has "\\treturn other\(\);"\. The line before it matches\./,
    );
    await assert.rejects(
      project.edit("function a() {\n\treturn computeTotal(items);\n}\nmore", "x"),
      /ends after line 3/,
    );
    await assert.rejects(project.edit("qqqqqqqq", "x"), /and no similar text/);
    await assert.rejects(project.edit("function", "function"), /the same/);
  });

  it("rejects a file that changed since it was read, until it is read again", async () => {
    await using project = await createProject("one\n");
    await project.read();
    await utimes(project.file, new Date(), new Date());
    await project.edit("one", "two");
    await project.edit("two", "three");
    await writeFile(project.file, "three and more\n");
    await assert.rejects(project.edit("three", "four"), /changed since you read it.*Read it again/);
    await assert.rejects(project.write("new"), /changed since you read it/);
    await project.read();
    await project.edit("three", "four");
    assert.equal(await project.readText(), "four and more\n");
  });

  it("keeps CRLF, BOM and bytes that are not UTF-8", async () => {
    const latin1Content = Buffer.from("\xef\xbb\xbffirst\r\nsecond caf\xe9\r\nthird\r\n", "latin1");
    await using project = await createProject(latin1Content);
    assert.match((await project.read()).text, /^1\tfirst\n2\tsecond caf\uFFFD\n3\tthird\n\[not valid UTF-8/);
    await project.edit("third\n", "third\nfourth ü\n");
    await project.edit("first\nsecond", "1\n2");
    assert.deepEqual(
      await readFile(project.file),
      Buffer.from("\xef\xbb\xbf1\r\n2 caf\xe9\r\nthird\r\nfourth \xc3\xbc\r\n", "latin1"),
    );
  });

  it("applies all of 20 concurrent edits of one file", async () => {
    await using project = await createProject(Array.from({ length: 20 }, (_, i) => `line ${i};\n`).join(""));
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        callTool(
          getTool("edit"),
          { path: "a.ts", old_string: `line ${i};`, new_string: `done ${i};` },
          createToolContext(project.context.projectDir),
        ),
      ),
    );
    assert.equal(await project.readText(), Array.from({ length: 20 }, (_, i) => `done ${i};\n`).join(""));
  });

  it("rejects binary files and UTF-16", async () => {
    await using project = await createProject(Buffer.from([0, 1, 2]));
    await assert.rejects(project.edit("a", "b"), /not a text file/);
    await using utf16Project = await createProject(Buffer.from("\uFEFFhello", "utf16le"));
    await assert.rejects(utf16Project.edit("hello", "b"), /utf-16le/);
    assert.equal((await utf16Project.read()).text, "1\thello");
  });
});

describe("multiedit", () => {
  it("applies all edits in order, or none", async () => {
    await using project = await createProject("a\nb\nc\n");
    const call = (edits: unknown) => callTool(getTool("multiedit"), { path: "a.ts", edits }, project.context);
    const output = await call([
      { old_string: "a", new_string: "A" },
      { old_string: "A\nb", new_string: "A\nB" },
    ]);
    assert.equal(output.text, "Edited a.ts: replaced at line 1; at line 1.");
    assert.equal(await project.readText(), "A\nB\nc\n");
    await assert.rejects(
      call([
        { old_string: "c", new_string: "C" },
        { old_string: "missing", new_string: "" },
      ]),
      /edit 2 of 2; none was applied/,
    );
    assert.equal(await project.readText(), "A\nB\nc\n");
  });
});

describe("edits that make a file too large", () => {
  it("are rejected with less than 256 MiB of memory, and leave the file unchanged", async () => {
    const block = `a${"x".repeat(999)}`;
    await using project = await createProject(block.repeat(2));
    const doublingEdits = Array.from({ length: 200 }, () => ({
      old_string: "a",
      new_string: `${block}a`,
      replace_all: true,
    }));
    const initialBytes = process.memoryUsage().rss;
    await assert.rejects(
      callTool(getTool("multiedit"), { path: "a.ts", edits: doublingEdits }, project.context),
      /edit \d+ of 200; none was applied\): the result would be larger than 10485760 bytes/,
    );
    assert.ok(process.memoryUsage().rss - initialBytes < 256 * 1024 * 1024);
    const growingEdit = { path: "a.ts", old_string: "a", new_string: "x".repeat(6_000_000), replace_all: true };
    await assert.rejects(
      callTool(getTool("edit"), growingEdit, project.context),
      /the result would be larger than 10485760 bytes/,
    );
    assert.equal(await project.readText(), block.repeat(2));
  });
});

describe("write", () => {
  it("creates folders, replaces the whole file, and keeps its mode, CRLF and BOM", async () => {
    await using project = await createProject("\uFEFFa\r\nb\r\n");
    await chmod(project.file, 0o640);
    await project.read();
    const output = await project.write("x\ny\nz\n");
    assert.equal(
      output.text,
      "Replaced a.ts: 3 lines, previously 2 lines (kept the CRLF line endings and byte order mark).",
    );
    assert.equal(await project.readText(), "\uFEFFx\r\ny\r\nz\r\n");
    assert.equal((await stat(project.file)).mode & 0o777, 0o640);
    const createOutput = await callTool(getTool("write"), { path: "deep/er/new.txt", content: "hi" }, project.context);
    assert.equal(createOutput.text, "Created deep/er/new.txt: 1 line.");
    assert.equal(createOutput.diff![0]!.oldText, null);
    assert.equal(await readFile(join(project.context.projectDir, "deep/er/new.txt"), "utf8"), "hi");
    await callTool(getTool("edit"), { path: "deep/er/new.txt", old_string: "hi", new_string: "ho" }, project.context);
    await assert.rejects(
      callTool(getTool("write"), { path: "a.ts/x", content: "" }, project.context),
      /not a folder|not found/,
    );
  });

  it("replaces a file atomically for concurrent readers, and leaves no temporary file", async () => {
    const texts = ["a".repeat(200_000), "b".repeat(300_000)];
    await using project = await createProject(texts[0]!);
    let isWriting = true;
    const writeLoop = (async () => {
      for (let i = 0; i < 20; i++) await project.write(texts[i % 2]!);
      isWriting = false;
    })();
    while (isWriting) assert.ok(texts.includes(await project.readText()));
    await writeLoop;
    assert.deepEqual(await readdir(project.context.projectDir), ["a.ts"]);
  });
});

it("edit rejects a file that changes while the edit is prepared, and keeps that change", async () => {
  await using project = await createProject("old 0\n");
  const { signal } = new AbortController();
  let saveCount = 0;
  // The tool checks its signal after it has created the new text, and before it checks the file again.
  signal.throwIfAborted = () => writeFileSync(project.file, `old ${++saveCount}\n`);
  const args = { path: "a.ts", old_string: "old", new_string: "new" };
  await assert.rejects(
    callTool(getTool("edit"), args, { ...project.context, signal }),
    /changed just now\. Read it again/,
  );
  assert.equal(await project.readText(), `old ${saveCount}\n`);
});
