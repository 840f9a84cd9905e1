import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { MemoryDriver, type AgentOptions, type SlashCommand } from "gantry";
import { MemoryDocuments, type ToolSource } from "gantry/plugin";
import type { ScriptedStep } from "gantry/testing";
import { parseCommandFile, fillTemplate, toOneLine } from "../../../../src/project/command-text.js";
import { createScriptedAgent } from "../../../helpers/acp-agent.js";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

/** A command with this text. */
function createCommand(name: string, text: string, fields: Partial<SlashCommand> = {}): SlashCommand {
  const prompt = (argumentText: string) => Promise.resolve({ text: `${text} ${argumentText}`.trim() });
  return { name, description: `Is ${name}.`, hint: "", origin: "test", prompt, ...fields };
}

function createSource(prompts: readonly unknown[]): ToolSource {
  const openSource = { tools: [], prompts: prompts as readonly SlashCommand[], close: () => Promise.resolve() };
  return { name: "source", open: () => Promise.resolve(openSource) };
}

async function createProject(
  t: Hooks,
  files: Record<string, string>,
  steps: readonly ScriptedStep[],
  options: Partial<AgentOptions> = {},
) {
  const folder = await tempDir(t);
  await folder.write(files);
  const { agent, provider } = createScriptedAgent(t, steps, { projectDir: folder.path, ...options });
  /** The texts of the last user message that the model received. */
  const lastUserTexts = () => {
    const request = provider.requests.at(-1);
    return request?.messages.at(-1)?.parts.map((part) => ("text" in part ? part.text : part.type));
  };
  const runMessage = async (message: string, input: object = {}) =>
    (await agent.run({ message, commands: true, ...input })).result;
  return { folder, agent, provider, lastUserTexts, runMessage };
}

const REVIEW = `---
description: "Look at\\ta change"
argument-hint: [file]
model: gpt-5
---
Review $1 with care.
`;

describe("slash commands", () => {
  it("escape invisible characters of their file, and are rejected if the file is not text", async (t) => {
    const files = {
      ".agents/commands/hidden.md": "\uFEFFSay\u202E $1\r\nthen \u{E0041}stop\u200b.",
      ".agents/commands/binary.md": "a\0b",
    };
    const { lastUserTexts, runMessage } = await createProject(t, files, ["fine"]);
    await runMessage("/hidden \u202Ehi");
    // Typed characters stay unchanged.
    assert.deepEqual(lastUserTexts(), ["Say\\u202e \u202Ehi\nthen \\udb40\\udc41stop\\u200b."]);
    await assert.rejects(runMessage("/binary"), /\/binary is empty/);
  });

  it("are listed from the project's files and expanded for the model, with the typed text stored beside it", async (t) => {
    const files = {
      ".agents/commands/review.md": REVIEW,
      ".agents/commands/git/commit.md": "# Commit what is there\n\nCommit.",
      ".agents/commands/no command.md": "x",
      ".agents/commands/notes.txt": "x",
    };
    const { agent, lastUserTexts, runMessage } = await createProject(t, files, ["fine", "done"]);
    assert.deepEqual(await agent.commands(), [
      {
        name: "compact",
        description: (await agent.commands())[0]?.description,
        hint: "what to keep",
        origin: "gantry",
      },
      {
        name: "git:commit",
        description: "Commit what is there",
        hint: "",
        origin: ".agents/commands/git/commit.md",
      },
      { name: "review", description: "Look at\\ta change", hint: "[file]", origin: ".agents/commands/review.md" },
    ]);
    const { sessionId } = await runMessage("/review 'src/a b.ts'");
    assert.deepEqual(lastUserTexts(), ["Review src/a b.ts with care."]);
    await runMessage("/git:commit", { sessionId });
    assert.deepEqual(lastUserTexts(), ["# Commit what is there\n\nCommit."]);
    const storedPrompts = (await agent.sessions.messages(sessionId)).filter(({ role }) => role === "user");
    assert.deepEqual(
      storedPrompts.map(({ parts }) => parts),
      [
        [{ type: "text", text: "Review src/a b.ts with care.", originalText: "/review 'src/a b.ts'" }],
        [{ type: "text", text: "# Commit what is there\n\nCommit.", originalText: "/git:commit" }],
      ],
    );
  });

  it("are sent as typed if commands are off or no command has that name", async (t) => {
    const { lastUserTexts, runMessage, agent } = await createProject(t, { ".agents/commands/review.md": REVIEW }, [
      "1",
      "2",
      "3",
      "4",
      "5",
    ]);
    await runMessage("/review x", { commands: false });
    assert.deepEqual(lastUserTexts(), ["/review x"]);
    for (const message of ["/nothing x", "/usr/bin/env is missing", "/", "see /review", "/../review", "/Review x"]) {
      const { sessionId } = await runMessage(message);
      assert.deepEqual(lastUserTexts(), [message]);
      const [firstMessage] = await agent.sessions.messages(sessionId);
      assert.ok(!("originalText" in firstMessage!.parts[0]!));
    }
  });

  it("of the embedder win over the user's, and these over the project's, which projectInstructions: false omits", async (t) => {
    const userFolder = await tempDir(t);
    await userFolder.write({ "who.md": "the user", "mine.md": "mine" });
    const { agent, lastUserTexts, runMessage } = await createProject(
      t,
      {
        ".agents/commands/who.md": "the project",
        ".agents/commands/compact.md": "no",
        ".agents/commands/its.md": "its",
      },
      ["1", "2", "3"],
      { commandFolders: [userFolder.path], commands: [createCommand("mine", "the embedder")] },
    );
    const names = (await agent.commands()).map(({ name, origin }) => `${name} ${origin}`);
    assert.deepEqual(names, ["compact gantry", "mine test", "who commands/who.md", "its .agents/commands/its.md"]);
    await runMessage("/who");
    assert.deepEqual(lastUserTexts(), ["the user"]);
    await runMessage("/mine now");
    assert.deepEqual(lastUserTexts(), ["the embedder now"]);
    const withoutProject = await createProject(t, { ".agents/commands/its.md": "its" }, ["1"], {
      projectInstructions: false,
    });
    assert.deepEqual(
      (await withoutProject.agent.commands()).map(({ name }) => name),
      ["compact"],
    );
    await withoutProject.runMessage("/its");
    assert.deepEqual(withoutProject.lastUserTexts(), ["/its"]);
  });

  it("include the prompts of the session's open tool sources, with their attachments", async (t) => {
    const image = { type: "image", mediaType: "image/png", data: "AAAA" } as const;
    const lookCommand = createCommand("web:look", "", {
      prompt: (argumentText) => Promise.resolve({ text: `look ${argumentText}`, parts: [image] }),
    });
    const prompts = [
      null,
      { name: "a b" },
      { ...lookCommand, name: "two words" },
      { ...lookCommand, name: "x", prompt: 1 },
      lookCommand,
    ];
    const { agent, lastUserTexts, runMessage } = await createProject(t, {}, ["1", "2"], {
      tools: [createSource(prompts)],
    });
    const { sessionId } = await runMessage("/web:look here");
    assert.deepEqual(lastUserTexts(), ["look here", "image"]);
    const sessionCommands = await agent.commands({ sessionId });
    assert.deepEqual(
      sessionCommands.map(({ name }) => name),
      ["compact", "web:look"],
    );
    assert.deepEqual(
      (await agent.commands()).map(({ name }) => name),
      ["compact"],
    );
    await assert.rejects(agent.commands({ sessionId: "none" }), { code: "session_not_found" });
  });

  it("prefer an MCP server's prompts to project files, which may not use the server's name", async (t) => {
    const files = {
      ".agents/commands/issues/triage.md": "Of the repository.",
      ".agents/commands/issues/close.md": "Of the repository.",
      ".agents/commands/issues-of/us.md": "Of the repository.",
      ".agents/commands/plain.md": "Of the repository.",
      ".agents/commands/source/plain.md": "Of the repository.",
    };
    const prompts = ["issues:triage", "plain"].map((name) => createCommand(name, "Of the server."));
    const folder = await tempDir(t, { "issues/own.md": "Of the user." });
    const server = { ...createSource(prompts), name: "mcp:issues" };
    const { agent, lastUserTexts, runMessage } = await createProject(t, files, Array<string>(7).fill("fine"), {
      tools: [server, { ...createSource([]), name: "source" }],
      commandFolders: [folder.path],
    });
    const listNames = async (query: { sessionId?: string }) =>
      (await agent.commands(query)).map(({ name, origin }) => `${name} ${origin}`);
    // Listed even if no session has opened the server.
    const alwaysListed = ["compact gantry", "issues:own commands/issues/own.md"];
    const projectCommands = ["issues-of/us", "source/plain"].map(
      (path) => `${path.replace("/", ":")} .agents/commands/${path}.md`,
    );
    assert.deepEqual(await listNames({}), [
      ...alwaysListed,
      projectCommands[0],
      "plain .agents/commands/plain.md",
      projectCommands[1],
    ]);
    const { sessionId } = await runMessage("/issues:triage");
    assert.deepEqual(await listNames({ sessionId }), [
      ...alwaysListed,
      "issues:triage test",
      "plain test",
      ...projectCommands,
    ]);
    for (const [message, expected] of [
      ["/issues:triage", "Of the server."],
      ["/plain", "Of the server."],
      ["/issues:own", "Of the user."],
      ["/issues:close", "/issues:close"],
      ["/issues-of:us", "Of the repository."],
      ["/source:plain", "Of the repository."],
    ] as const) {
      await runMessage(message, { sessionId });
      assert.deepEqual(lastUserTexts(), [expected]);
    }
  });

  it("that fail start no run and store nothing", async (t) => {
    const { agent, runMessage } = await createProject(
      t,
      { ".agents/commands/empty.md": "---\n---\n", ".agents/commands/large.md": "x".repeat(70_000) },
      [],
      {
        commands: [
          createCommand("broken", "", { prompt: () => Promise.reject(new Error("the server is gone")) }),
          createCommand("hangs", "", {
            prompt: (_, signal) =>
              new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("late")))),
          }),
        ],
      },
    );
    const expectedError = { code: "invalid_input", field: "commands" };
    await assert.rejects(runMessage("/empty"), { ...expectedError, message: /\/empty is empty/ });
    await assert.rejects(runMessage("/large"), { ...expectedError, message: /at most 64 KiB, and \/large is longer/ });
    assert.ok(
      !(await agent.commands()).some(({ name }) => name === "large"),
      "a command above the size limit is not listed",
    );
    await assert.rejects(runMessage("/broken"), { ...expectedError, message: /\/broken failed: the server is gone/ });
    const signal = AbortSignal.timeout(50);
    await assert.rejects(runMessage("/hangs", { signal }), { code: "run_cancelled" });
    assert.equal((await agent.sessions.list()).total, 0);
  });

  it("insert the arguments several times, and are rejected if the text becomes too long", async (t) => {
    const files = {
      ".agents/commands/amp.md": "$ARGUMENTS".repeat(6_500),
      ".agents/commands/four.md": "$ARGUMENTS".repeat(4),
    };
    const { runMessage, lastUserTexts } = await createProject(t, files, ["a", "b"]);
    const typedText = "y".repeat(80_000);
    await assert.rejects(runMessage(`/amp ${typedText}`), {
      code: "invalid_input",
      message: /shorter arguments for \/amp/,
    });
    await runMessage(`/four ${typedText.slice(0, 10_000)}`);
    assert.equal(lastUserTexts()?.[0]?.length, 40_000);
    await runMessage("/amp few");
    assert.equal(lastUserTexts()?.[0]?.length, 3 * 6_500);
  });

  it("of an untrusted project follow no symlinks, and are limited in number and depth", async (t) => {
    const outside = await tempDir(t);
    await outside.write({ "secret.md": "secret", "folder/secret.md": "secret" });
    const manyFiles = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`.agents/commands/n${i}.md`, "x"]));
    const { folder, agent, lastUserTexts, runMessage } = await createProject(
      t,
      { ...manyFiles, ".agents/commands/d/d/d/d/deep.md": "deep" },
      ["1", "2", "3"],
    );
    await symlink(outside.at("secret.md"), folder.at(".agents/commands/aa.md"));
    await symlink(outside.at("folder"), folder.at(".agents/commands/link"));
    const names = (await agent.commands()).map(({ name }) => name);
    assert.ok(names.length <= 129, String(names.length));
    assert.ok(!names.some((name) => name === "aa" || name.includes("secret") || name.includes("deep")));
    for (const message of ["/aa", "/link:secret", "/d:d:d:d:deep"]) {
      await runMessage(message);
      assert.deepEqual(lastUserTexts(), [message]);
    }
  });

  it("compact the session by /compact, with the arguments in the summary request", async (t) => {
    const store = new MemoryDocuments();
    const { agent, provider, runMessage } = await createProject(
      t,
      {},
      ["x".repeat(20_000), "y".repeat(20_000), "A summary."],
      {
        driver: new MemoryDriver(store),
        compaction: { strategy: "summary" },
      },
    );
    await assert.rejects(runMessage("/compact"), { code: "invalid_input", field: "sessionId" });
    const { sessionId } = await runMessage("begin ".repeat(2_000));
    await runMessage("go on ".repeat(2_000), { sessionId });
    const result = await runMessage("/compact the names", { sessionId });
    assert.equal(result.iterations, 0);
    const request = provider.requests.at(-1);
    assert.ok(JSON.stringify(request).includes("the names"));
    assert.ok(
      (await agent.sessions.messages(sessionId)).every(({ parts }) => !JSON.stringify(parts).includes("/compact")),
    );
  });

  it("request a session title for the typed text", async (t) => {
    const { agent, provider, runMessage } = await createProject(t, { ".agents/commands/review.md": REVIEW }, ["fine"]);
    const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
    await runMessage("/review a.ts");
    await titleUpdate;
    const titleRequest = provider.titleRequests[0];
    assert.match(JSON.stringify(titleRequest?.messages), /\/review a\.ts/);
  });
});

describe("the template of a command", () => {
  const templates: [body: string, argumentText: string, text: string][] = [
    ["Do $ARGUMENTS now", "a b", "Do a b now"],
    ["$1-$2-$3", `"one two" three`, "one two-three-"],
    ["Cost $10 and $ARGUMENTSX", "x", "Cost $10 and $ARGUMENTSX\n\nx"],
    ["Plain", "", "Plain"],
    ["Plain", "words", "Plain\n\nwords"],
    ["$ARGUMENTS $1", "$1 $ARGUMENTS $&", "$1 $ARGUMENTS $& $1"],
    ["`cmd` @file !`ls`", "", "`cmd` @file !`ls`"],
  ];
  for (const [body, argumentText, text] of templates)
    it(`fills ${JSON.stringify(body)} with ${JSON.stringify(argumentText)} to ${JSON.stringify(text)}`, () =>
      assert.equal(fillTemplate(body, argumentText), text));

  it("is separated from the fields of the front matter", () => {
    assert.deepEqual(
      parseCommandFile("\uFEFF---\r\ndescription: >\r\n  one\r\n  two\r\nargument-hint: 'x'\r\n---\r\nBody\r\n"),
      {
        description: "one two",
        hint: "x",
        body: "Body",
      },
    );
    assert.deepEqual(parseCommandFile("---\nno end"), { description: "---", hint: "", body: "---\nno end" });
    assert.equal(parseCommandFile("").description, "");
  });

  it("has a description in one line of at most 200 characters, without invisible characters", () => {
    assert.equal(toOneLine("a\u202Eb\n\u0000c"), "a b c");
    assert.equal([...toOneLine("🙂".repeat(500))].length, 200);
  });
});
