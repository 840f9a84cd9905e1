import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import type { PermissionRule, Tool } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { supportsPatches } from "../../../../src/tools/files/apply-patch.js";
import { callTool, temporaryFolder, toolContext } from "../../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
const tool = (name: string): Tool => tools.get(name)!;

/** A patch with this body. */
const patchOf = (body: string): string => `*** Begin Patch\n${body}\n*** End Patch\n`;

const modelOf = (id: string) => ({ id, name: id, ownedBy: "lab" });

async function project(files: Readonly<Record<string, string | Buffer>> = {}) {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, name)), { recursive: true });
    await writeFile(join(folder.path, name), content);
  }
  const context = toolContext(folder.path);
  return {
    path: folder.path,
    context,
    patch: (body: string) => callTool(tool("apply_patch"), { input: patchOf(body) }, context),
    read: (path: string) => callTool(tool("read"), { path }, context),
    /** All files and their contents. */
    async now() {
      const names = (await readdir(folder.path, { recursive: true, withFileTypes: true })).filter((dirEntry) =>
        dirEntry.isFile(),
      );
      const paths = names.map((dirEntry) => join(dirEntry.parentPath, dirEntry.name)).sort();
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
    await using p = await project({
      "a.py": "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 1\n",
      "old.txt": "old\n",
      "src/from.js": "one();\ntwo();\n",
    });
    await chmod(join(p.path, "src/from.js"), 0o755);
    const output = await p.patch(
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
    assert.deepEqual(await p.now(), {
      "a.py": "class A:\n    def a(self):\n        return 1\n\n    def b(self):\n        return 2\n",
      "deep/new.txt": "first\n\nthird\n",
      "lib/to.js": "one();\n2();\n",
    });
    assert.equal((await stat(join(p.path, "lib/to.js"))).mode & 0o777, 0o755);
    assert.deepEqual(
      output.diff!.map(({ path, oldText, newText }) => [
        path.slice(p.path.length + 1),
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
    await p.patch("*** Update File: deep/new.txt\n-third\n+3\n*** Add File: lib/to.js\n+all new");
    assert.equal((await p.now())["deep/new.txt"], "first\n\n3\n");
    assert.equal((await p.now())["lib/to.js"], "all new\n");
  });

  it("changes all of its files or none", async () => {
    const files = { "a.txt": "one\n", "b.txt": "two\n" };
    await using p = await project(files);
    const good = "*** Update File: a.txt\n-one\n+1\n*** Add File: c.txt\n+new\n";
    for (const [bad, why] of [
      ["*** Update File: b.txt\n-three\n+3", /b\.txt: the patch was not found/],
      ["*** Update File: gone.txt\n-three\n+3", /gone\.txt: not found/],
      ["*** Delete File: gone.txt", /gone\.txt: not found/],
      ["*** Add File: b.txt\n+x", /b\.txt: already exists, and you have not read its current content/],
      ["*** Update File: b.txt\n*** Move to: a.txt\n-two\n+2", /a\.txt: already exists, so b\.txt was not moved/],
      ["*** Add File: ../out.txt\n+x", /outside|not below/],
      ["*** Add File: .git/hooks/pre-commit\n+x", /protected|git/],
      ["*** Update File: b.txt\n*** Move to: .vscode/tasks.json\n-two\n+2", /is protected/],
      ["*** Add File: a.txt/below\n+x", /not a folder|not found/],
    ] as const) {
      await assert.rejects(p.patch(good + bad), why, bad);
      assert.deepEqual(await p.now(), files, bad);
    }
  });

  it("rolls back its changes if a file cannot be written", async () => {
    const files = { "a.txt": "one\n", "b.txt": "two\n", "src/c.txt": "three\n" };
    await using p = await project(files);
    await chmod(join(p.path, "src/c.txt"), 0o755);
    const body = [
      "*** Update File: a.txt\n-one\n+1",
      "*** Update File: src/c.txt\n*** Move to: d.txt\n-three\n+3",
      "*** Add File: x/y\n+a file in a folder",
      "*** Add File: x\n+a file where the folder is",
      "*** Delete File: b.txt",
    ];
    await assert.rejects(p.patch(body.join("\n")), /x: is a folder\. .*Nothing was changed\./);
    assert.deepEqual(await p.now(), files);
    assert.equal((await stat(join(p.path, "src/c.txt"))).mode & 0o777, 0o755);
    // After the rollback, the tool does not treat the rolled-back content as read.
    await writeFile(join(p.path, "a.txt"), "one\n2\n");
    await p.patch(body[0]!);
    assert.equal((await p.now())["a.txt"], "1\n2\n");
  });

  it("rejects a file that changed since it was read, and the deletion or move of a link", async () => {
    await using p = await project({ "a.txt": "one\n", "b.txt": "one\n" });
    await p.read("a.txt");
    await writeFile(join(p.path, "a.txt"), "one\nmore\n");
    await assert.rejects(p.patch("*** Update File: a.txt\n-one\n+1"), /changed since you read it/);
    await assert.rejects(p.patch("*** Delete File: a.txt"), /changed since you read it/);
    await symlink("b.txt", join(p.path, "link"));
    await assert.rejects(p.patch("*** Delete File: link"), /symbolic link/);
    await assert.rejects(p.patch("*** Update File: link\n*** Move to: c.txt\n-one\n+1"), /symbolic link/);
    await p.patch("*** Update File: link\n-one\n+1");
    assert.equal((await p.now())["b.txt"], "1\n");
  });

  it("applies a section to the result of earlier sections", async () => {
    await using p = await project({ "a.txt": "one\ntwo\n" });
    await p.patch(
      "*** Update File: a.txt\n-one\n+1\n*** Update File: a.txt\n 1\n-two\n+2\n*** Add File: b.txt\n+b\n*** Update File: b.txt\n-b\n+B\n*** Update File: a.txt\n*** Move to: c.txt\n*** Add File: a.txt\n+new",
    );
    assert.deepEqual(await p.now(), { "a.txt": "new\n", "b.txt": "B\n", "c.txt": "1\n2\n" });
  });

  it("reports an inexact match in a file that the patch moves", async () => {
    await using p = await project({ "a.txt": "one  \ntwo\n" });
    const { text } = await p.patch("*** Update File: a.txt\n*** Move to: b.txt\n one\n-two\n+2");
    assert.match(text, /^R a\.txt -> b\.txt \(inexact match: line 1: trailing whitespace differs\)$/m);
  });

  it("keeps line ends, byte order mark and bytes that are not UTF-8", async () => {
    const latin = Buffer.from("\xef\xbb\xbffirst\r\ncaf\xe9\r\nthird", "latin1");
    await using p = await project({ "a.txt": latin });
    await p.patch("*** Update File: a.txt\n-first\n+1\n+2\n@@\n-third\n+3\n+4");
    assert.deepEqual(
      await readFile(join(p.path, "a.txt")),
      Buffer.from("\xef\xbb\xbf1\r\n2\r\ncaf\xe9\r\n3\r\n4\r\n", "latin1"),
    );
    await using binary = await project({
      "a.bin": Buffer.from([0, 1, 10, 2]),
      "wide.txt": Buffer.from("\uFEFFa", "utf16le"),
    });
    await assert.rejects(binary.patch("*** Update File: a.bin\n-x\n+y"), /not a text file/);
    await assert.rejects(binary.patch("*** Update File: wide.txt\n-a\n+b"), /utf-16le/);
    await binary.patch("*** Update File: a.bin\n*** Move to: b.bin");
    assert.deepEqual(await readFile(join(binary.path, "b.bin")), Buffer.from([0, 1, 10, 2]));
  });

  it("previews the resulting files without changing them", async () => {
    await using p = await project({ "a.txt": "one  \ntwo\n", "big.txt": `${"x".repeat(300_000)}\nend\n` });
    const patchTool = tool("apply_patch");
    const args: unknown = patchTool.parse({
      input: patchOf(
        "*** Update File: a.txt\n one\n-two\n+2\n*** Update File: big.txt\n-end\n+END\n*** Add File: n\n+n",
      ),
    });
    const reach = { projectDir: p.path, signal: AbortSignal.timeout(10_000) };
    assert.deepEqual(await patchTool.preview!(args, reach), {
      diff: [
        { path: join(p.path, "a.txt"), oldText: "one  \ntwo\n", newText: "one  \n2\n" },
        { path: join(p.path, "n"), oldText: null, newText: "n\n" },
      ],
      note: "Not shown (too large, or not text): big.txt. Inexact matches: a.txt (line 1: trailing whitespace differs).",
    });
    assert.deepEqual(Object.keys(await p.now()), ["a.txt", "big.txt"]);
    assert.deepEqual(patchTool.describe(args, p.path), {
      title: "Patch 3 files",
      locations: ["a.txt", "big.txt", "n"].map((name) => ({ path: join(p.path, name) })),
      diff: [
        { path: join(p.path, "a.txt"), oldText: "one\ntwo", newText: "one\n2" },
        { path: join(p.path, "big.txt"), oldText: "end", newText: "END" },
        { path: join(p.path, "n"), oldText: null, newText: "n\n" },
      ],
      actsAs: ["edit", "write"],
      reads: ["a.txt", "big.txt"].map((name) => ({ path: join(p.path, name) })),
    });
  });
});

describe("the text of a patch", () => {
  const parse = (input: string) => tool("apply_patch").parse({ input }) as unknown;

  it("may be wrapped in a code fence, a here-document or JSON", async () => {
    await using p = await project({ "a.txt": "one\n" });
    let now = "one";
    for (const [before, after] of [
      ["```\n", "```\n"],
      ["apply_patch <<'EOF'\n", "EOF\n"],
      ["<<EOF\n", "EOF"],
      ['apply_patch <<"END_OF_IT"\n', "END_OF_IT"],
      ["\n\n  ", "\n"],
    ] as const) {
      const input = `${before}${patchOf(`  *** Update File: a.txt  \n-${now}\n+${now}+`)}${after}`;
      await callTool(tool("apply_patch"), { patch: input.replaceAll("\n", "\r\n") }, p.context);
      now += "+";
    }
    assert.deepEqual(await p.now(), { "a.txt": "one+++++\n" });
    const inner = patchOf("*** Update File: a.txt\n-one+++++\n+two");
    for (const wrapped of [{ input: inner }, { command: ["apply_patch", inner] }, ["apply_patch", inner]])
      assert.doesNotThrow(() => parse(JSON.stringify(wrapped)));
    await callTool(tool("apply_patch"), { input: JSON.stringify({ patch: inner }) }, p.context);
    assert.deepEqual(await p.now(), { "a.txt": "two\n" });
    assert.throws(() => parse(`cd sub && apply_patch <<'EOF'\n${inner}EOF\n`), /no text outside/);
    assert.throws(() => parse(JSON.stringify([inner, inner])), /expected/);
  });

  it("may contain the headers and markers of a git diff", async () => {
    await using p = await project({ "a.txt": "one\ntwo" });
    const end = "\\ No newline at end of file";
    await p.patch(`*** Update File: a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n${end}\n+2\n${end}`);
    assert.deepEqual(await p.now(), { "a.txt": "one\n2\n" });
    // Without line numbers these lines are content, not headers.
    await using q = await project({ "a.txt": "-- a\n" });
    await q.patch("*** Update File: a.txt\n--- a\n+++ b");
    assert.deepEqual(await q.now(), { "a.txt": "++ b\n" });
  });

  it("is rejected if it changes no file; unchanged files are marked in the result", async () => {
    await using p = await project({ "a.txt": "one\n", "b.txt": "two\n" });
    const same = "*** Update File: a.txt\n-one\n+one";
    await assert.rejects(p.patch(same), /The patch changes nothing/);
    await assert.rejects(p.patch("*** Add File: c.txt\n+c\n*** Delete File: c.txt"), /The patch changes nothing/);
    const { text } = await p.patch(`${same}\n*** Update File: b.txt\n-two\n+2`);
    assert.match(text, /M a\.txt \(unchanged\)\nM b\.txt$/);
  });

  it("is rejected with the invalid line or the expected one", () => {
    for (const [input, why] of [
      ["--- a/x\n+++ b/x\n", /expected a line "\*\*\* Begin Patch"/],
      ["*** Begin Patch\n*** Add File: a\n+x\n", /expected a line "\*\*\* End Patch"/],
      [patchOf(""), /expected a file to add, update or delete/],
      [patchOf("*** Rename File: a"), /line 2 of the patch: expected "\*\*\* Add File: PATH"/],
      [patchOf("*** Add File: a\nx"), /line 3 of the patch: expected a line that begins with "\+", got "x"/],
      [patchOf("*** Update File: a"), /line 3 of the patch: expected changes of "a"/],
      [patchOf("*** Update File: a\n@@\n one\n"), /expected a line that begins with "\+" or "-"/],
      [patchOf("*** Update File: a\n@@\n-one\ntwo\n"), /line 5 of the patch: expected a line that begins with " "/],
      [`${patchOf("*** Delete File: a")}rm -rf /\n`, /no text outside .*rm -rf/],
      ["", /a string that is not empty/],
    ] as const)
      assert.throws(() => parse(input), why, input);
  });
});

describe("the choice between apply_patch and edit", () => {
  it("supportsPatches() is true for GPT-4.1 and later, Codex, o3 and o4 models, and false for others", () => {
    const yes = [
      "gpt-5",
      "gpt-5-mini",
      "gpt-5.2-codex",
      "openai/gpt-5:free",
      "gpt-4.1",
      "gpt-4.1-mini",
      "codex-mini-latest",
    ];
    for (const id of [...yes, "o3", "o4-mini", "openai.gpt-6", "GPT-5"])
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

  const EDITING = ["apply_patch", "delete", "edit", "multiedit", "write"];
  const offered = async (model: string, offeredTools: Tool[] = builtinTools()): Promise<string[]> => {
    await using folder = await temporaryFolder();
    const provider = new ScriptedProvider(["done"], { models: [modelOf(model)] });
    const agent = new Agent({ providers: [provider], tools: offeredTools, projectDir: folder.path });
    await (
      await agent.run({ message: "go" })
    ).result;
    await agent.close();
    return provider.requests[0]!.tools.map(({ name }) => name).filter((name) => EDITING.includes(name));
  };

  it("offers apply_patch in place of edit and multiedit to models that support patches", async () => {
    assert.deepEqual(await offered("gpt-5"), ["apply_patch", "delete", "write"]);
    assert.deepEqual(await offered("claude-opus-4-5"), ["delete", "edit", "multiedit", "write"]);
  });

  it("keeps edit if the agent has no apply_patch, and omits apply_patch if its models() throws", async () => {
    const editTools = builtinTools().filter(({ name }) => name === "edit" || name === "write");
    assert.deepEqual(await offered("gpt-5", editTools), ["edit", "write"]);
    const broken = builtinTools().map((builtin) =>
      builtin.name === "apply_patch"
        ? {
            ...builtin,
            models: () => {
              throw new Error("broken");
            },
          }
        : builtin,
    );
    assert.deepEqual(await offered("gpt-5", broken), ["delete", "edit", "multiedit", "write"]);
  });
});

describe("permission rules for apply_patch", () => {
  const outcome = (rules: PermissionRule[], body: string): Promise<string> =>
    called(rules, ["apply_patch", { input: patchOf(body) }], "gpt-5");
  const called = async (
    rules: PermissionRule[],
    call: readonly [name: string, args: Record<string, unknown>],
    model: string,
  ): Promise<string> => {
    await using p = await project({ "a.txt": "one\n", "sub/b.txt": "two\n" });
    const provider = new ScriptedProvider([callTools([...call]), "done"], { models: [modelOf(model)] });
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: p.path, rules, mode: "ask" });
    await (
      await agent.run({ message: "go" })
    ).result;
    await agent.close();
    const [result] = provider.requests[1]!.messages.filter(({ role }) => role === "tool");
    return JSON.stringify(result);
  };
  const update = "*** Update File: a.txt\n-one\n+1";
  const remove = "*** Delete File: sub/b.txt";
  const allow: PermissionRule = { tool: "apply_patch", action: "allow" };

  it("deny a patch with a change that they deny for edit, write or delete", async () => {
    for (const [rule, body] of [
      [{ tool: "edit", action: "deny" }, update],
      [{ tool: "edit", path: "a.*", action: "deny" }, `${update}\n${remove}`],
      [{ tool: "delete", action: "deny" }, `${update}\n${remove}`],
      [{ tool: "delete", action: "deny" }, `${update.replace("\n", "\n*** Move to: c.txt\n")}`],
      [{ tool: "write", path: "sub/**", action: "deny" }, "*** Add File: sub/c.txt\n+x"],
      [{ tool: "*", path: "sub/**", action: "deny" }, `${update}\n${remove}`],
    ] as const)
      assert.match(await outcome([rule, allow], body), /a rule denies it/, JSON.stringify(rule));
    assert.match(await outcome([{ tool: "delete", action: "deny" }, allow], update), /Success/);
    assert.match(await outcome([{ tool: "edit", path: "sub/**", action: "deny" }, allow], update), /Success/);
  });

  it("apply the rules for read to the files that apply_patch, edit and multiedit change", async () => {
    const move = "*** Update File: sub/b.txt\n*** Move to: b.txt";
    const guess = "*** Update File: sub/b.txt\n-twos\n+2";
    const all: PermissionRule = { tool: "*", action: "allow" };
    const read = (action: "deny" | "ask"): PermissionRule => ({ tool: "read", path: "sub/**", action });
    for (const body of [move, guess, `${update}\n${guess}`])
      for (const rules of [
        [read("deny"), all],
        [allow, read("deny")],
      ]) {
        const got = await outcome(rules, body);
        assert.match(got, /a rule denies it/, body);
        assert.doesNotMatch(got, /two\b/);
      }
    assert.match(await outcome([read("ask"), all], move), /needs permission/);
    assert.match(await outcome([read("deny"), all], update), /Success/);
    assert.match(await outcome([read("deny"), all], "*** Add File: sub/c.txt\n+x"), /Success/);
    assert.match(await outcome([allow, { tool: "*", action: "deny" }], move), /Success/);
    for (const [name, args] of [
      ["edit", { path: "sub/b.txt", old_string: "twos", new_string: "2" }],
      ["multiedit", { path: "sub/b.txt", edits: [{ old_string: "twos", new_string: "2" }] }],
    ] as const) {
      const got = await called([{ tool: name, action: "allow" }, read("deny")], [name, args], "other");
      assert.match(got, /a rule denies it/);
      assert.doesNotMatch(got, /two\b/);
    }
  });

  it("allow a patch only if they allow all of its changes", async () => {
    const rules = (...names: string[]): PermissionRule[] => [
      ...names.map((name) => ({ tool: name, action: "allow" }) as const),
      { tool: "*", action: "deny" },
    ];
    assert.match(await outcome(rules("edit"), update), /Success/);
    assert.match(await outcome(rules("edit"), `${update}\n${remove}`), /a rule denies it/);
    assert.match(await outcome(rules("delete"), `${update}\n${remove}`), /a rule denies it/);
    assert.match(await outcome(rules("*"), `${update}\n${remove}`), /Success/);
  });
});
