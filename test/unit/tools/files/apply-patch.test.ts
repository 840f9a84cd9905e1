import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import type { PermissionRule, Tool } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { supportsPatches } from "../../../../src/tools/files/apply-patch.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
const getTool = (name: string): Tool => tools.get(name)!;

/** Returns a patch with this body. */
const createPatch = (body: string): string => `*** Begin Patch\n${body}\n*** End Patch\n`;

const createModel = (id: string) => ({ id, name: id, ownedBy: "lab" });

async function createProject(files: Readonly<Record<string, string | Buffer>> = {}) {
  const folder = await createTemporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, name)), { recursive: true });
    await writeFile(join(folder.path, name), content);
  }
  const context = createToolContext(folder.path);
  return {
    path: folder.path,
    context,
    patch: (body: string) => callTool(getTool("apply_patch"), { input: createPatch(body) }, context),
    read: (path: string) => callTool(getTool("read"), { path }, context),
    /** Returns the contents of all files by relative path. */
    async readFiles() {
      const dirEntries = (await readdir(folder.path, { recursive: true, withFileTypes: true })).filter((dirEntry) =>
        dirEntry.isFile(),
      );
      const paths = dirEntries.map((dirEntry) => join(dirEntry.parentPath, dirEntry.name)).sort();
      return Object.fromEntries(
        await Promise.all(
          paths.map(async (path) => [path.slice(folder.path.length + 1), await readFile(path, "utf8")] as const),
        ),
      );
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

describe("apply_patch", () => {
  it("adds, changes, moves and deletes files, and returns their names and diffs", async () => {
    await using project = await createProject({
      "a.py": "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 1\n",
      "old.txt": "old\n",
      "src/from.js": "one();\ntwo();\n",
    });
    await chmod(join(project.path, "src/from.js"), 0o755);
    const output = await project.patch(
      [
        "*** Add File: deep/new.txt",
        "+first",
        "+",
        "+third",
        "*** Update File: a.py",
        "@@ class A:",
        "@@     def b(self):",
        "-        return 1",
        "+        return 2",
        "*** Delete File: old.txt",
        "*** Update File: src/from.js",
        "*** Move to: lib/to.js",
        " one();",
        "-two();",
        "+2();",
      ].join("\n"),
    );
    assert.equal(
      output.text,
      "Success. Updated the following files:\nA deep/new.txt\nM a.py\nD old.txt\nR src/from.js -> lib/to.js",
    );
    assert.deepEqual(await project.readFiles(), {
      "a.py": "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n",
      "deep/new.txt": "first\n\nthird\n",
      "lib/to.js": "one();\n2();\n",
    });
    assert.equal((await stat(join(project.path, "lib/to.js"))).mode & 0o777, 0o755);
    assert.deepEqual(
      output.diff!.map(({ path, oldText, newText }) => [
        path.slice(project.path.length + 1),
        oldText?.length,
        newText.length,
      ]),
      [
        ["deep/new.txt", undefined, 13],
        ["a.py", 78, 78],
        ["old.txt", 4, 0],
        ["src/from.js", 14, 0],
        ["lib/to.js", undefined, 12],
      ],
    );
    assert.deepEqual(output.locations!.find(({ path }) => path.endsWith("a.py"))!.line, 6);
    // A file that a patch wrote can be changed again without a read.
    await project.patch("*** Update File: deep/new.txt\n-third\n+3\n*** Add File: lib/to.js\n+all new");
    assert.equal((await project.readFiles())["deep/new.txt"], "first\n\n3\n");
    assert.equal((await project.readFiles())["lib/to.js"], "all new\n");
  });

  it("changes all of its files or none", async () => {
    const files = { "a.txt": "one\n", "b.txt": "two\n" };
    await using project = await createProject(files);
    const validPart = "*** Update File: a.txt\n-one\n+1\n*** Add File: c.txt\n+new\n";
    for (const [invalidPart, expectedError] of [
      ["*** Update File: b.txt\n-three\n+3", /b\.txt: the patch was not found/],
      ["*** Update File: gone.txt\n-three\n+3", /gone\.txt: not found/],
      ["*** Delete File: gone.txt", /gone\.txt: not found/],
      ["*** Update File: b.txt\n*** Move to: a.txt\n-two\n+2", /a\.txt: already exists, so b\.txt was not moved/],
      ["*** Add File: ../out.txt\n+x", /outside|not below/],
      ["*** Add File: .git/hooks/pre-commit\n+x", /protected|git/],
      ["*** Update File: b.txt\n*** Move to: .vscode/tasks.json\n-two\n+2", /is protected/],
      ["*** Add File: a.txt/below\n+x", /not a folder|not found/],
    ] as const) {
      await assert.rejects(project.patch(validPart + invalidPart), expectedError, invalidPart);
      assert.deepEqual(await project.readFiles(), files, invalidPart);
    }
  });

  it("replaces existing files, and reports those that the session had not read", async () => {
    await using project = await createProject({ "a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n", "d.txt": "" });
    await project.read("c.txt");
    const body = [
      "*** Add File: a.txt\n+1",
      "*** Update File: b.txt\n*** Move to: c.txt\n-two\n+2",
      "*** Add File: d.txt\n+4",
    ];
    assert.equal(
      (await project.patch(body.join("\n"))).text,
      "a.txt: Warning: this session had not read the file that this call replaced. " +
        "Put back what must stay of its content:\none\n[end of the replaced content]\n" +
        "Success. Updated the following files:\nM a.txt\nR b.txt -> c.txt\nM d.txt",
    );
    assert.deepEqual(await project.readFiles(), { "a.txt": "1\n", "c.txt": "2\n", "d.txt": "4\n" });
    await project.read("a.txt");
    await writeFile(join(project.path, "a.txt"), "changed\n");
    await assert.rejects(project.patch("*** Add File: a.txt\n+1"), /changed since you read it/);
    await assert.rejects(
      project.patch("*** Update File: c.txt\n*** Move to: a.txt"),
      /a\.txt: changed since you read it/,
    );
  });

  it("rolls back its changes if a file cannot be written", async () => {
    const files = { "a.txt": "one\n", "b.txt": "two\n", "src/c.txt": "three\n" };
    await using project = await createProject(files);
    await chmod(join(project.path, "src/c.txt"), 0o755);
    const body = [
      "*** Update File: a.txt\n-one\n+1",
      "*** Update File: src/c.txt\n*** Move to: d.txt\n-three\n+3",
      "*** Add File: x/y\n+a file in a folder",
      "*** Add File: x\n+a file where the folder is",
      "*** Delete File: b.txt",
    ];
    await assert.rejects(project.patch(body.join("\n")), /x: is a folder\. .*Nothing was changed\./);
    assert.deepEqual(await project.readFiles(), files);
    assert.equal((await stat(join(project.path, "src/c.txt"))).mode & 0o777, 0o755);
    // After the rollback, the tool does not treat the rolled-back content as read.
    await writeFile(join(project.path, "a.txt"), "one\n2\n");
    await project.patch(body[0]!);
    assert.equal((await project.readFiles())["a.txt"], "1\n2\n");
  });

  it("rejects a file that changed since it was read, and the deletion or move of a link", async () => {
    await using project = await createProject({ "a.txt": "one\n", "b.txt": "one\n" });
    await project.read("a.txt");
    await writeFile(join(project.path, "a.txt"), "one\nmore\n");
    await assert.rejects(project.patch("*** Update File: a.txt\n-one\n+1"), /changed since you read it/);
    await assert.rejects(project.patch("*** Delete File: a.txt"), /changed since you read it/);
    await symlink("b.txt", join(project.path, "link"));
    await assert.rejects(project.patch("*** Delete File: link"), /symbolic link/);
    await assert.rejects(project.patch("*** Update File: link\n*** Move to: c.txt\n-one\n+1"), /symbolic link/);
    await project.patch("*** Update File: link\n-one\n+1");
    assert.equal((await project.readFiles())["b.txt"], "1\n");
  });

  it("applies a section to the result of earlier sections", async () => {
    await using project = await createProject({ "a.txt": "one\ntwo\n" });
    await project.patch(
      "*** Update File: a.txt\n-one\n+1\n*** Update File: a.txt\n 1\n-two\n+2\n*** Add File: b.txt\n+b\n*** Update File: b.txt\n-b\n+B\n*** Update File: a.txt\n*** Move to: c.txt\n*** Add File: a.txt\n+new",
    );
    assert.deepEqual(await project.readFiles(), { "a.txt": "new\n", "b.txt": "B\n", "c.txt": "1\n2\n" });
  });

  it("reports an inexact match in a file that the patch moves", async () => {
    await using project = await createProject({ "a.txt": "one  \ntwo\n" });
    const { text } = await project.patch("*** Update File: a.txt\n*** Move to: b.txt\n one\n-two\n+2");
    assert.match(text, /^R a\.txt -> b\.txt \(inexact match: line 1: trailing whitespace differs\)$/m);
  });

  it("keeps line ends, byte order mark and bytes that are not UTF-8", async () => {
    const latin1Bytes = Buffer.from("\xef\xbb\xbffirst\r\ncaf\xe9\r\nthird", "latin1");
    await using project = await createProject({ "a.txt": latin1Bytes });
    await project.patch("*** Update File: a.txt\n-first\n+1\n+2\n@@\n-third\n+3\n+4");
    assert.deepEqual(
      await readFile(join(project.path, "a.txt")),
      Buffer.from("\xef\xbb\xbf1\r\n2\r\ncaf\xe9\r\n3\r\n4\r\n", "latin1"),
    );
    await using binaryProject = await createProject({
      "a.bin": Buffer.from([0, 1, 10, 2]),
      "wide.txt": Buffer.from("\uFEFFa", "utf16le"),
    });
    await assert.rejects(binaryProject.patch("*** Update File: a.bin\n-x\n+y"), /not a text file/);
    await assert.rejects(binaryProject.patch("*** Update File: wide.txt\n-a\n+b"), /utf-16le/);
    await binaryProject.patch("*** Update File: a.bin\n*** Move to: b.bin");
    assert.deepEqual(await readFile(join(binaryProject.path, "b.bin")), Buffer.from([0, 1, 10, 2]));
  });

  it("previews the resulting files without changing them", async () => {
    await using project = await createProject({ "a.txt": "one  \ntwo\n", "big.txt": `${"x".repeat(300_000)}\nend\n` });
    const patchTool = getTool("apply_patch");
    const args: unknown = patchTool.parse({
      input: createPatch(
        "*** Update File: a.txt\n one\n-two\n+2\n*** Update File: big.txt\n-end\n+END\n*** Add File: n\n+n",
      ),
    });
    const previewContext = { projectDir: project.path, signal: AbortSignal.timeout(10_000) };
    assert.deepEqual(await patchTool.preview!(args, previewContext), {
      diff: [
        { path: join(project.path, "a.txt"), oldText: "one  \ntwo\n", newText: "one  \n2\n" },
        { path: join(project.path, "n"), oldText: null, newText: "n\n" },
      ],
      note: "Not shown (too large, or not text): big.txt. Inexact matches: a.txt (line 1: trailing whitespace differs).",
    });
    assert.deepEqual(Object.keys(await project.readFiles()), ["a.txt", "big.txt"]);
    assert.deepEqual(patchTool.describe(args, project.path), {
      title: "Patch 3 files",
      locations: ["a.txt", "big.txt", "n"].map((name) => ({ path: join(project.path, name) })),
      diff: [
        { path: join(project.path, "a.txt"), oldText: "one\ntwo", newText: "one\n2" },
        { path: join(project.path, "big.txt"), oldText: "end", newText: "END" },
        { path: join(project.path, "n"), oldText: null, newText: "n\n" },
      ],
      actsAs: ["edit", "write"],
      reads: ["a.txt", "big.txt"].map((name) => ({ path: join(project.path, name) })),
    });
  });
});

describe("the text of a patch", () => {
  const parsePatch = (input: string) => getTool("apply_patch").parse({ input }) as unknown;

  it("may be wrapped in a code fence, a here-document or JSON", async () => {
    await using project = await createProject({ "a.txt": "one\n" });
    let currentLine = "one";
    for (const [prefix, suffix] of [
      ["```\n", "```\n"],
      ["apply_patch <<'EOF'\n", "EOF\n"],
      ["<<EOF\n", "EOF"],
      ['apply_patch <<"END_OF_IT"\n', "END_OF_IT"],
      ["\n\n  ", "\n"],
    ] as const) {
      const input = `${prefix}${createPatch(`  *** Update File: a.txt  \n-${currentLine}\n+${currentLine}+`)}${suffix}`;
      await callTool(getTool("apply_patch"), { patch: input.replaceAll("\n", "\r\n") }, project.context);
      currentLine += "+";
    }
    assert.deepEqual(await project.readFiles(), { "a.txt": "one+++++\n" });
    const innerPatch = createPatch("*** Update File: a.txt\n-one+++++\n+two");
    for (const wrappedPatch of [
      { input: innerPatch },
      { command: ["apply_patch", innerPatch] },
      ["apply_patch", innerPatch],
    ])
      assert.doesNotThrow(() => parsePatch(JSON.stringify(wrappedPatch)));
    await callTool(getTool("apply_patch"), { input: JSON.stringify({ patch: innerPatch }) }, project.context);
    assert.deepEqual(await project.readFiles(), { "a.txt": "two\n" });
    assert.throws(() => parsePatch(`cd sub && apply_patch <<'EOF'\n${innerPatch}EOF\n`), /no text outside/);
    assert.throws(() => parsePatch(JSON.stringify([innerPatch, innerPatch])), /expected/);
  });

  it("may contain the headers and markers of a git diff", async () => {
    await using project = await createProject({ "a.txt": "one\ntwo" });
    const noNewlineMarker = "\\ No newline at end of file";
    await project.patch(
      `*** Update File: a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n${noNewlineMarker}\n+2\n${noNewlineMarker}`,
    );
    assert.deepEqual(await project.readFiles(), { "a.txt": "one\n2\n" });
    // Without a hunk header with line numbers, these lines are content.
    await using secondProject = await createProject({ "a.txt": "-- a\n" });
    await secondProject.patch("*** Update File: a.txt\n--- a\n+++ b");
    assert.deepEqual(await secondProject.readFiles(), { "a.txt": "++ b\n" });
  });

  it("is rejected if it changes no file; unchanged files are marked in the result", async () => {
    await using project = await createProject({ "a.txt": "one\n", "b.txt": "two\n" });
    const unchangedUpdate = "*** Update File: a.txt\n-one\n+one";
    await assert.rejects(project.patch(unchangedUpdate), /The patch changes nothing/);
    await assert.rejects(project.patch("*** Add File: c.txt\n+c\n*** Delete File: c.txt"), /The patch changes nothing/);
    const { text } = await project.patch(`${unchangedUpdate}\n*** Update File: b.txt\n-two\n+2`);
    assert.match(text, /M a\.txt \(unchanged\)\nM b\.txt$/);
  });

  it("is rejected with the invalid line or the expected line", () => {
    for (const [input, expectedError] of [
      ["--- a/x\n+++ b/x\n", /expected a line "\*\*\* Begin Patch"/],
      ["*** Begin Patch\n*** Add File: a\n+x\n", /expected a line "\*\*\* End Patch"/],
      [createPatch(""), /expected a file to add, update or delete/],
      [createPatch("*** Rename File: a"), /line 2 of the patch: expected "\*\*\* Add File: PATH"/],
      [createPatch("*** Add File: a\nx"), /line 3 of the patch: expected a line that begins with "\+", got "x"/],
      [createPatch("*** Update File: a"), /line 3 of the patch: expected changes of "a"/],
      [createPatch("*** Update File: a\n@@\n one\n"), /expected a line that begins with "\+" or "-"/],
      [createPatch("*** Update File: a\n@@\n-one\ntwo\n"), /line 5 of the patch: expected a line that begins with " "/],
      [`${createPatch("*** Delete File: a")}rm -rf /\n`, /no text outside .*rm -rf/],
      ["", /a string that is not empty/],
    ] as const)
      assert.throws(() => parsePatch(input), expectedError, input);
  });
});

describe("the choice between apply_patch and edit", () => {
  it("supportsPatches() is true for GPT-4.1 and later, Codex, o3 and o4 models, and false for others", () => {
    const gptAndCodexIds = [
      "gpt-5",
      "gpt-5-mini",
      "gpt-5.2-codex",
      "openai/gpt-5:free",
      "gpt-4.1",
      "gpt-4.1-mini",
      "codex-mini-latest",
    ];
    for (const id of [...gptAndCodexIds, "o3", "o4-mini", "openai.gpt-6", "GPT-5"])
      assert.equal(supportsPatches({ id }), true, id);
    for (const id of [
      "gpt-4o",
      "gpt-4",
      "gpt-35-turbo",
      "gpt-oss-120b",
      "claude-opus-4-5",
      "gemini-3-pro",
      "olmo",
      "o1x",
      "qwen3-coder",
    ])
      assert.equal(supportsPatches({ id }), false, id);
  });

  const EDITING_TOOL_NAMES = ["apply_patch", "delete", "edit", "multiedit", "write"];
  const getOfferedToolNames = async (model: string, agentTools: Tool[] = builtinTools()): Promise<string[]> => {
    await using folder = await createTemporaryFolder();
    const provider = new ScriptedProvider(["done"], { models: [createModel(model)] });
    const agent = new Agent({ providers: [provider], tools: agentTools, projectDir: folder.path });
    await (
      await agent.run({ message: "go" })
    ).result;
    await agent.close();
    return provider.requests[0]!.tools.map(({ name }) => name).filter((name) => EDITING_TOOL_NAMES.includes(name));
  };

  it("offers apply_patch in place of edit and multiedit to models that support patches", async () => {
    assert.deepEqual(await getOfferedToolNames("gpt-5"), ["apply_patch", "delete", "write"]);
    assert.deepEqual(await getOfferedToolNames("claude-opus-4-5"), ["delete", "edit", "multiedit", "write"]);
  });

  it("keeps edit if the agent has no apply_patch, and omits apply_patch if apply_patch.models() throws", async () => {
    const editTools = builtinTools().filter(({ name }) => name === "edit" || name === "write");
    assert.deepEqual(await getOfferedToolNames("gpt-5", editTools), ["edit", "write"]);
    const brokenTools = builtinTools().map((builtin) =>
      builtin.name === "apply_patch"
        ? {
            ...builtin,
            models: () => {
              throw new Error("broken");
            },
          }
        : builtin,
    );
    assert.deepEqual(await getOfferedToolNames("gpt-5", brokenTools), ["delete", "edit", "multiedit", "write"]);
  });
});

describe("permission rules for apply_patch", () => {
  const runPatch = (rules: PermissionRule[], body: string): Promise<string> =>
    runCall(rules, ["apply_patch", { input: createPatch(body) }], "gpt-5");
  const runCall = async (
    rules: PermissionRule[],
    call: readonly [name: string, args: Record<string, unknown>],
    model: string,
  ): Promise<string> => {
    await using project = await createProject({ "a.txt": "one\n", "sub/b.txt": "two\n" });
    const provider = new ScriptedProvider([callTools([...call]), "done"], { models: [createModel(model)] });
    const agent = new Agent({
      providers: [provider],
      tools: builtinTools(),
      projectDir: project.path,
      rules,
      mode: "ask",
    });
    await (
      await agent.run({ message: "go" })
    ).result;
    await agent.close();
    const [result] = provider.requests[1]!.messages.filter(({ role }) => role === "tool");
    return JSON.stringify(result);
  };
  const updateBody = "*** Update File: a.txt\n-one\n+1";
  const deletionBody = "*** Delete File: sub/b.txt";
  const allowPatch: PermissionRule = { tool: "apply_patch", action: "allow" };

  it("deny a patch with a change that they deny for edit, write or delete", async () => {
    for (const [rule, body] of [
      [{ tool: "edit", action: "deny" }, updateBody],
      [{ tool: "edit", path: "a.*", action: "deny" }, `${updateBody}\n${deletionBody}`],
      [{ tool: "delete", action: "deny" }, `${updateBody}\n${deletionBody}`],
      [{ tool: "delete", action: "deny" }, `${updateBody.replace("\n", "\n*** Move to: c.txt\n")}`],
      [{ tool: "write", path: "sub/**", action: "deny" }, "*** Add File: sub/c.txt\n+x"],
      [{ tool: "*", path: "sub/**", action: "deny" }, `${updateBody}\n${deletionBody}`],
    ] as const)
      assert.match(await runPatch([rule, allowPatch], body), /a rule denies it/, JSON.stringify(rule));
    assert.match(await runPatch([{ tool: "delete", action: "deny" }, allowPatch], updateBody), /Success/);
    assert.match(await runPatch([{ tool: "edit", path: "sub/**", action: "deny" }, allowPatch], updateBody), /Success/);
  });

  it("apply the rules for read to the files that apply_patch, edit and multiedit change", async () => {
    const moveBody = "*** Update File: sub/b.txt\n*** Move to: b.txt";
    const wrongUpdateBody = "*** Update File: sub/b.txt\n-twos\n+2";
    const allowAll: PermissionRule = { tool: "*", action: "allow" };
    const createReadRule = (action: "deny" | "ask"): PermissionRule => ({ tool: "read", path: "sub/**", action });
    for (const body of [moveBody, wrongUpdateBody, `${updateBody}\n${wrongUpdateBody}`])
      for (const rules of [
        [createReadRule("deny"), allowAll],
        [allowPatch, createReadRule("deny")],
      ]) {
        const toolResult = await runPatch(rules, body);
        assert.match(toolResult, /a rule denies it/, body);
        assert.doesNotMatch(toolResult, /two\b/);
      }
    assert.match(await runPatch([createReadRule("ask"), allowAll], moveBody), /needs permission/);
    assert.match(await runPatch([createReadRule("deny"), allowAll], updateBody), /Success/);
    assert.match(await runPatch([createReadRule("deny"), allowAll], "*** Add File: sub/c.txt\n+x"), /Success/);
    assert.match(await runPatch([allowPatch, { tool: "*", action: "deny" }], moveBody), /Success/);
    for (const [name, args] of [
      ["edit", { path: "sub/b.txt", old_string: "twos", new_string: "2" }],
      ["multiedit", { path: "sub/b.txt", edits: [{ old_string: "twos", new_string: "2" }] }],
    ] as const) {
      const toolResult = await runCall(
        [{ tool: name, action: "allow" }, createReadRule("deny")],
        [name, args],
        "other",
      );
      assert.match(toolResult, /a rule denies it/);
      assert.doesNotMatch(toolResult, /two\b/);
    }
  });

  it("allow a patch only if they allow all of its changes", async () => {
    const createRules = (...names: string[]): PermissionRule[] => [
      ...names.map((name) => ({ tool: name, action: "allow" }) as const),
      { tool: "*", action: "deny" },
    ];
    assert.match(await runPatch(createRules("edit"), updateBody), /Success/);
    assert.match(await runPatch(createRules("edit"), `${updateBody}\n${deletionBody}`), /a rule denies it/);
    assert.match(await runPatch(createRules("delete"), `${updateBody}\n${deletionBody}`), /a rule denies it/);
    assert.match(await runPatch(createRules("*"), `${updateBody}\n${deletionBody}`), /Success/);
  });
});
