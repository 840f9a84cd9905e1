import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, type AgentOptions } from "gantry";
import type { ModelRequest } from "gantry/plugin";
import { callTools, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { ENVIRONMENT_KEY } from "../../../../src/conversation/conversation.js";
import { findFamily, createWorkInstructions } from "../../../../src/run/prompt/system-prompt.js";
import { parseEnvironment } from "../../../../src/project/project.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir } from "../../../helpers/temp-dir.js";

const MODEL = { id: "test-model", name: "Test", ownedBy: "lab", contextWindow: 200_000, maxOutput: 4_000 };

function createAgent(t: TestContext, steps: readonly ScriptedStep[], options: Partial<AgentOptions> = {}) {
  const provider = new ScriptedProvider(steps, { models: [MODEL] });
  const agent = new Agent({ providers: [provider], tools: builtinTools(), ...options });
  t.after(() => agent.close());
  const sendPrompt = async (message: string, sessionId?: string): Promise<string> => {
    const run = await agent.run({ message, ...(sessionId !== undefined && { sessionId }) });
    await run.result;
    return run.sessionId;
  };
  const readSystemPrompts = () => provider.requests.map(({ system }) => system);
  return { agent, provider, sendPrompt, readSystemPrompts };
}

const toPrefix = ({ system, tools }: ModelRequest) => JSON.stringify([system, tools]);

describe("the system prompt and tools of a session's requests", () => {
  it("are byte-identical in 50 requests with several compactions, while files in the folder change", async (t) => {
    const folder = await tempDir(t, {
      "AGENTS.md": "Use tabs.",
      "src/a.ts": "",
      ".git/HEAD": "ref: refs/heads/main\n",
    });
    const longText = "words ".repeat(700);
    const script = Array.from({ length: 10 }, () => [
      ...Array.from({ length: 4 }, () => [...callTools(["todowrite", { todos: [] }])]),
      say(longText),
    ]).flat();
    const { agent, provider, sendPrompt } = createAgent(t, script, {
      projectDir: folder.path,
      compaction: { strategy: "sliding-window", contextWindow: 9_000, keepMessages: 6 },
    });
    let compactionCount = 0;
    agent.on("session.compacted", () => (compactionCount += 1));
    let id: string | undefined;
    for (let i = 0; i < 10; i++) {
      id = await sendPrompt(`prompt ${i} ${longText}`, id);
      await folder.write({ [`src/new${i}.ts`]: "", ".git/HEAD": `ref: refs/heads/b${i}\n` });
    }
    assert.equal(provider.requests.length, 50);
    assert.ok(compactionCount >= 2, `${compactionCount} compactions`);
    assert.equal(new Set(provider.requests.map(toPrefix)).size, 1);
    assert.match(
      provider.requests[49]?.system ?? "",
      /Use tabs\.[\s\S]*branch main(\nTop .*\nsrc\/: a\.ts\nAGENTS\.md)?$/,
    );
    // Between compactions each request extends the previous one, including its messages.
    let extendedRequestCount = 0;
    for (const [i, { messages }] of provider.requests.entries()) {
      const previousMessages = provider.requests[i - 1]?.messages ?? [];
      if (JSON.stringify(messages.slice(0, previousMessages.length)) === JSON.stringify(previousMessages))
        extendedRequestCount += 1;
    }
    assert.ok(
      extendedRequestCount >= 50 - compactionCount,
      `${extendedRequestCount} of 50, ${compactionCount} compactions`,
    );
  });

  for (const [name, makeStore] of STORES) {
    it(`have the same system prompt in another process and in a fork (${name})`, async (t) => {
      const openDriver = await makeStore(t);
      const folder = await tempDir(t, { "a.ts": "", ".git/HEAD": "ref: refs/heads/main\n" });
      const options = { projectDir: folder.path };
      const firstProcess = createAgent(t, [say("one"), say("two")], { ...options, driver: openDriver() });
      const id = await firstProcess.sendPrompt("x");
      await firstProcess.sendPrompt("y", id);
      await firstProcess.agent.close();
      await folder.write({ "b.ts": "", ".git/HEAD": "ref: refs/heads/other\n" });
      const secondProcess = createAgent(t, [], { ...options, driver: openDriver() });
      await secondProcess.sendPrompt("z", id);
      const [firstMessage] = await secondProcess.agent.sessions.messages(id);
      const fork = await secondProcess.agent.sessions.fork(id, firstMessage!.id);
      await secondProcess.sendPrompt("z", fork.id);
      assert.deepEqual(
        [...new Set([...firstProcess.readSystemPrompts(), ...secondProcess.readSystemPrompts()])],
        [firstProcess.readSystemPrompts()[0]],
      );
      assert.match(firstProcess.readSystemPrompts()[0] ?? "", /branch main(\nTop .*\na\.ts)?$/);
      // The stored environment is not part of the messages.
      for (const { parts } of secondProcess.provider.requests.flatMap(({ messages }) => messages))
        assert.ok(parts.every((part) => !("opaque" in part)));
    });
  }

  it("contain a new environment on a new day, which is stored with the first prompt of that day only", async (t) => {
    t.mock.timers.enable({ apis: ["Date"], now: new Date(2026, 0, 31, 23, 0) });
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/main\n" });
    const { agent, sendPrompt, readSystemPrompts } = createAgent(t, [], { projectDir: folder.path });
    const id = await sendPrompt("x");
    await folder.write({ ".git/HEAD": "ref: refs/heads/other\n" });
    await sendPrompt("x", id);
    t.mock.timers.setTime(new Date(2026, 1, 1, 0, 1).getTime());
    await sendPrompt("x", id);
    await sendPrompt("x", id);
    const changingLines = readSystemPrompts().map((system) =>
      /Date: (.*)\nGit at the start of the session: (.*)$/m.exec(system)?.slice(1),
    );
    const [firstDay, secondDay] = [
      ["2026-01-31", "branch main"],
      ["2026-02-01", "branch other"],
    ];
    assert.deepEqual(changingLines, [firstDay, firstDay, secondDay, secondDay]);
    const messages = await agent.sessions.messages(id);
    const storedData = messages.map(({ parts: [part] }) => (part?.type === "text" ? part.opaque?.data : undefined));
    assert.deepEqual(
      storedData.flatMap((data) => (data === undefined ? [] : [Object.keys(data as object)])),
      [[ENVIRONMENT_KEY], [ENVIRONMENT_KEY]],
    );
  });

  it("ignore a stored environment of invalid form or size", () => {
    const environment = { day: "2026-01-31", folder: "/a", git: "x", tree: "y" };
    assert.deepEqual(parseEnvironment(environment), environment);
    const invalidFields = [{ day: "x" }, { git: 1 }, { folder: undefined }, { tree: "x".repeat(10_000) }];
    for (const changes of invalidFields) assert.equal(parseEnvironment({ ...environment, ...changes }), undefined);
    for (const invalidValue of [null, "x", {}]) assert.equal(parseEnvironment(invalidValue), undefined);
  });

  it("describe the folder of the run, also if the session began in another folder", async (t) => {
    const [folderA, folderB] = [
      await tempDir(t, { ".git/HEAD": "ref: refs/heads/of-a\n", "only-in-a": "" }),
      await tempDir(t, { ".git/HEAD": "ref: refs/heads/of-b\n" }),
    ];
    const { sendPrompt, agent, readSystemPrompts } = createAgent(t, [], { projectDir: folderA.path });
    const id = await sendPrompt("x");
    await (
      await agent.run({ message: "y", sessionId: id, projectDir: folderB.path })
    ).result;
    const [firstSystem, secondSystem] = readSystemPrompts();
    // The tree is omitted if it takes more than a second. test/unit/project/tree.test.ts tests its content.
    assert.match(firstSystem ?? "", /branch of-a(\nTop .*\nonly-in-a)?$/);
    assert.match(secondSystem ?? "", /branch of-b/);
    assert.doesNotMatch(secondSystem ?? "", /of-a|only-in-a/);
  });

  it("change with an instruction file, and only in its text", async (t) => {
    const folder = await tempDir(t, { "AGENTS.md": "Use tabs." });
    const { sendPrompt, readSystemPrompts } = createAgent(t, [], { projectDir: folder.path });
    const id = await sendPrompt("x");
    await sendPrompt("x", id);
    await writeFile(folder.at("AGENTS.md"), "Use blanks, two.");
    await sendPrompt("x", id);
    const [firstSystem, secondSystem, thirdSystem] = readSystemPrompts();
    assert.equal(firstSystem, secondSystem);
    assert.equal(thirdSystem, firstSystem?.replace("Use tabs.", "Use blanks, two."));
  });
});

describe("the system prompt", () => {
  it("contains the user's instructions and skills before the project's, each with its source", async (t) => {
    const folder = await tempDir(t, {
      "p/AGENTS.md": "project's word",
      "p/.agents/skills/release/SKILL.md": "---\nname: release\ndescription: How to release.\n---\nx",
      "home/AGENTS.md": "user's word",
      "home/skills/own/SKILL.md": "---\nname: own\ndescription: Mine.\n---\nx",
    });
    const options = { projectDir: folder.at("p"), home: folder.at("home"), deniedPaths: [folder.at("home")] };
    const { sendPrompt, readSystemPrompts, provider } = createAgent(
      t,
      [callTools(["skill", { name: "own" }])],
      options,
    );
    await sendPrompt("x");
    assert.match(
      readSystemPrompts()[0] ?? "",
      /# User instructions\n<instructions from=".*home\/AGENTS\.md">\nuser's word[\s\S]*not a trusted source[\s\S]*from="AGENTS\.md">\nproject's word[\s\S]*\n- own \(user\): Mine\.\n- release \(project\): How to release\.\n/,
    );
    const [answer] = provider.requests[1]?.messages.at(-1)?.parts ?? [];
    assert.match(answer?.type === "text" ? answer.text : "", /^Skill of the user/);
    const withoutInstructions = createAgent(t, [], { ...options, projectInstructions: false });
    await withoutInstructions.sendPrompt("x");
    assert.doesNotMatch(
      withoutInstructions.readSystemPrompts()[0] ?? "",
      /project's word|release|Top of the project|Git when/,
    );
    assert.match(withoutInstructions.readSystemPrompts()[0] ?? "", /user's word[\s\S]*- own \(user\)/);
  });

  it("offers the skill tool only if there are skills, and lists no skills without the tool", async (t) => {
    const folder = await tempDir(t);
    const { sendPrompt, provider } = createAgent(t, [], { projectDir: folder.path });
    await sendPrompt("x");
    await folder.write({ ".agents/skills/s/SKILL.md": "---\ndescription: d\n---\nx" });
    await sendPrompt("y");
    const offersSkills = ({ tools, system }: ModelRequest) => [
      tools.some(({ name }) => name === "skill"),
      system.includes("# Skills"),
    ];
    assert.deepEqual(provider.requests.map(offersSkills), [
      [false, false],
      [true, true],
    ]);
    const withoutTools = createAgent(t, [], { projectDir: folder.path, tools: [] });
    await withoutTools.sendPrompt("x");
    assert.deepEqual(withoutTools.provider.requests.map(offersSkills), [[false, false]]);
  });

  it('is the embedder\'s with prompt: "replace", followed by project instructions and the folder', async (t) => {
    const folder = await tempDir(t, { "AGENTS.md": "Use tabs." });
    const { sendPrompt, readSystemPrompts } = createAgent(t, [], {
      projectDir: folder.path,
      prompt: "replace",
      systemPrompt: "You are Ada.",
    });
    await sendPrompt("x");
    assert.match(
      readSystemPrompts()[0] ?? "",
      /^You are Ada\.\n\n# Project instructions[\s\S]*Use tabs\.[\s\S]*Project folder: /,
    );
    assert.doesNotMatch(readSystemPrompts()[0] ?? "", /coding agent/);
    assert.throws(
      () => new Agent({ providers: [], prompt: "own" as "replace" }),
      /prompt: expected one of "extend", "replace"/,
    );
  });

  it("describes only the tools, git branch and files that the run can use", async (t) => {
    const folder = await tempDir(t, {
      ".git/HEAD": "ref: refs/heads/fix\n",
      ".gitignore": "dist/\n",
      "dist/x": "",
      "src/a": "",
    });
    const { agent, sendPrompt, readSystemPrompts } = createAgent(t, [], { projectDir: folder.path });
    await sendPrompt("x");
    await writeFile(folder.at(".git/MERGE_HEAD"), "");
    const run = await agent.run({ message: "x", tools: [], ask: () => Promise.resolve("reject") });
    await run.result;
    const [firstSystem, secondSystem] = readSystemPrompts();
    assert.match(
      firstSystem ?? "",
      /No user is present[\s\S]*todowrite[\s\S]*Do not commit[\s\S]*branch fix(\nTop .*\nsrc\/: a\n\.gitignore)?$/,
    );
    assert.doesNotMatch(firstSystem ?? "", /ask_user|dist/);
    // An agent without file tools receives none of these texts.
    assert.doesNotMatch(secondSystem ?? "", /todowrite|commit|branch|Top of/);
  });

  it("runs no command of the repository's git configuration", async (t) => {
    const folder = await tempDir(t, {
      ".git/HEAD": "ref: refs/heads/main\n",
      ".git/config": `[core]\n\tfsmonitor = touch ${"ran"}\n\thooksPath = hooks\n[filter "x"]\n\tclean = touch ran\n`,
      ".gitattributes": "* filter=x\n",
    });
    await mkdir(folder.at(".git/objects"));
    const { sendPrompt, readSystemPrompts } = createAgent(t, [], { projectDir: folder.path });
    await sendPrompt("x");
    assert.match(readSystemPrompts()[0] ?? "", /branch main/);
    await assert.rejects(folder.read("ran"), { code: "ENOENT" });
  });
});

describe("instructions in subfolders of the project", () => {
  const readResults = (provider: ScriptedProvider, requestIndex: number) =>
    (provider.requests[requestIndex]?.messages ?? []).flatMap(({ role, parts: [part] }) =>
      role === "tool" && part?.type === "text" ? [part.text] : [],
    );
  const countMatches = (texts: readonly string[], pattern: RegExp) => texts.filter((text) => pattern.test(text)).length;

  it("are added once, to the first tool result from their folder", async (t) => {
    const folder = await tempDir(t, {
      "a/AGENTS.md": "rules of a",
      "a/b/AGENTS.md": "rules of b",
      "a/b/x.ts": "x",
      "a/b/y.ts": "y",
      "a/z.ts": "z",
      "c/CLAUDE.md": "rules of c",
    });
    const { sendPrompt, provider } = createAgent(
      t,
      [
        callTools(["read", { path: "a/b/x.ts" }], ["read", { path: "a/b/y.ts" }]),
        callTools(["read", { path: "a/z.ts" }], ["list", { path: "c" }], ["read", { path: "a/b/none" }]),
        say("ok"),
        callTools(["write", { path: "a/b/new.ts", content: "" }]),
        say("ok"),
      ],
      { projectDir: folder.path },
    );
    const id = await sendPrompt("x");
    await sendPrompt("y", id);
    const texts = readResults(provider, 4);
    assert.equal(countMatches(texts, /rules of a\n/), 1);
    assert.equal(countMatches(texts, /rules of b\n/), 1);
    assert.equal(countMatches(texts, /rules of c\n/), 1);
    assert.match(
      texts.find((text) => text.includes("rules of b")) ?? "",
      /^1\t[xy]\n?[\s\S]*from="a\/AGENTS\.md">\nrules of a\n<\/instructions>\n\n<instructions from="a\/b\/AGENTS\.md">\nrules of b\n<\/instructions>$/,
    );
  });

  it("are added again after a change, attached by a compaction, and not repeated in another process", async (t) => {
    const folder = await tempDir(t, { "a/AGENTS.md": "first rules", "a/x.ts": "x" });
    const [[, makeStore] = []] = STORES;
    assert.ok(makeStore);
    const openDriver = await makeStore(t);
    const readStep = callTools(["read", { path: "a/x.ts" }]);
    const firstProcess = createAgent(t, [readStep, say("ok")], { projectDir: folder.path, driver: openDriver() });
    const id = await firstProcess.sendPrompt("x");
    assert.equal(countMatches(readResults(firstProcess.provider, 1), /first rules/), 1);
    await firstProcess.agent.close();
    const secondProcess = createAgent(t, [readStep, say("ok"), readStep, say("ok")], {
      projectDir: folder.path,
      driver: openDriver(),
    });
    await secondProcess.sendPrompt("y", id);
    assert.equal(countMatches(readResults(secondProcess.provider, 1), /first rules/), 1);
    await writeFile(folder.at("a/AGENTS.md"), "second rules");
    await secondProcess.sendPrompt("z", id);
    assert.equal(countMatches(readResults(secondProcess.provider, 3), /second rules/), 1);
    await secondProcess.agent.close();
    const longText = "words ".repeat(2_000);
    const thirdProcess = createAgent(t, [say(longText), say(longText), readStep, say("ok")], {
      projectDir: folder.path,
      driver: openDriver(),
      compaction: { strategy: "sliding-window", contextWindow: 12_000, keepMessages: 2 },
    });
    for (let i = 0; i < 3; i++) await thirdProcess.sendPrompt(`again ${longText}`, id);
    // The compaction removed the result with the instructions and attached them to a message, so that the call of the
    // last prompt does not repeat them.
    const lastIndex = thirdProcess.provider.requests.length - 1;
    for (const index of [lastIndex - 1, lastIndex]) {
      assert.equal(countMatches(readResults(thirdProcess.provider, index), /second rules/), 0);
      const messageTexts = thirdProcess.provider.requests[index]?.messages.map((message) => JSON.stringify(message));
      assert.equal(countMatches(messageTexts ?? [], /second rules/), 1);
    }
  });

  it("have a size limit over the calls of one answer, and the remainder is added to the next answer's results", async (t) => {
    const names = ["a", "b", "c", "d"];
    const folder = await tempDir(
      t,
      Object.fromEntries(
        names.flatMap((name) => [
          [`${name}/AGENTS.md`, `rules of ${name} ${"r".repeat(15_000)}`],
          [`${name}/x`, "x"],
        ]),
      ),
    );
    const readStep = callTools(...names.map((name) => ["read", { path: `${name}/x` }] as const));
    const { sendPrompt, provider } = createAgent(t, [readStep, readStep, readStep, say("ok")], {
      projectDir: folder.path,
    });
    await sendPrompt("x");
    const ruleCounts = [1, 2, 3].map((requestIndex) => countMatches(readResults(provider, requestIndex), /rules of/));
    assert.deepEqual(ruleCounts, [2, 4, 4]);
    for (const name of names) assert.equal(countMatches(readResults(provider, 3), RegExp(`rules of ${name} `)), 1);
  });

  it("are cut at the size limit, and omitted with projectInstructions: false", async (t) => {
    const folder = await tempDir(t, { "a/AGENTS.md": "r".repeat(40_000), "a/x.ts": "x" });
    const readStep = callTools(["read", { path: "a/x.ts" }]);
    const { sendPrompt, provider } = createAgent(t, [readStep, say("ok")], { projectDir: folder.path });
    await sendPrompt("x");
    const [text = ""] = readResults(provider, 1);
    assert.ok(text.length < 17_000 && text.includes("[cut here; read the file for the rest]"), `${text.length}`);
    const withoutInstructions = createAgent(t, [readStep, say("ok")], {
      projectDir: folder.path,
      projectInstructions: false,
    });
    await withoutInstructions.sendPrompt("x");
    assert.equal(readResults(withoutInstructions.provider, 1)[0]?.includes("rrr"), false);
    await rm(folder.at("a/AGENTS.md"));
  });
});

describe("model families", () => {
  it("follow from the model id, and small models from parameter count or context window", () => {
    const familyOfModel = (id: string, contextWindow?: number) =>
      findFamily({ id, ...(contextWindow && { contextWindow }) });
    for (const [id, family] of [
      ["claude-sonnet-4-5", "claude"],
      ["anthropic/claude-opus-4.1", "claude"],
      ["us.anthropic.claude-haiku-4-5-v1:0", "claude"],
      ["gpt-5.1-codex", "gpt"],
      ["openai/o4-mini", "gpt"],
      ["o3", "gpt"],
      ["gemini-3-pro-preview", "gemini"],
      ["models/gemini-2.5-flash", "gemini"],
      ["qwen2.5-coder:7b", "small"],
      ["gemma-3-4b-it", "small"],
      ["llama-3.2-1b", "small"],
      ["qwen3-coder:30b-a3b", "other"],
      ["llama-3.3-70b-versatile", "other"],
      ["deepseek-chat", "other"],
      ["foo3", "other"],
    ] as const)
      assert.equal(familyOfModel(id, 128_000), family, id);
    assert.equal(familyOfModel("claude-sonnet-4-5", 16_000), "small");
  });

  it("have distinct instructions under 3.5 kB, and under 2 kB for small models", () => {
    const tools = builtinTools();
    for (const family of ["claude", "gpt", "gemini", "other"] as const)
      assert.ok(
        createWorkInstructions(family, tools).length < 3_500,
        `${family}: ${createWorkInstructions(family, tools).length}`,
      );
    assert.ok(createWorkInstructions("small", tools).length < 2_000);
    const instructions = (["claude", "gpt", "gemini", "small", "other"] as const).map((family) =>
      createWorkInstructions(family, tools),
    );
    assert.equal(new Set(instructions).size, 5);
  });
});
