import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Profile } from "../../../adapters/acp-shared/index.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import type { Json } from "../../helpers/acp-peer.js";
import { textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/** The `initialize` parameters of an editor, and a prompt in its format. */
interface Editor {
  /** Test title: the expected result, with the editor and its condition in parentheses. */
  name: string;
  /** Set if the test runs without a separate process, which is faster. The code under test is the same. */
  runsInProcess?: true;
  initialize: Json;
  /** `file` is the absolute path of a project file. */
  prompt(file: string): Json[];
  /** Texts that must reach the model, in this order. */
  expectedTexts(file: string): string[];
  /** The expected profile of the connection. */
  profile: Profile;
  /** Additional command-line arguments of the server process. */
  args?: string[];
  /** Types of ignored content blocks in the log. Undefined: the server ignores no block. */
  ignoredTypes?: string[];
}

const FS_CAPABILITIES = { fs: { readTextFile: true, writeTextFile: true } };
const NO_CAPABILITIES = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
const QUESTION = " and say what is wrong with it";
const FILE_CONTENT = "export const answer = 41;\n";

const createResourceBlock = (file: string): Json => ({
  type: "resource",
  resource: { uri: `file://${file}`, text: FILE_CONTENT, mimeType: "text/plain" },
});
const createLinkBlock = (file: string): Json => ({ type: "resource_link", uri: `file://${file}`, name: "answer.ts" });
const createTextBlock = (content: string): Json => ({ type: "text", text: content });

// The parameters and prompts are from the source code of each editor.
const EDITORS: readonly Editor[] = [
  {
    name: "forwards text, an embedded file and a question (agent-shell without clientInfo)",
    initialize: { clientCapabilities: FS_CAPABILITIES },
    prompt: (file) => [createTextBlock("look at "), createResourceBlock(file), createTextBlock(QUESTION)],
    expectedTexts: (file) => ["look at ", `file://${file}`, FILE_CONTENT.trim(), QUESTION],
    profile: "spec",
  },
  {
    name: "forwards a file as a link between two texts (agent-shell, large file)",
    runsInProcess: true,
    initialize: {
      clientInfo: { name: "agent-shell", title: "Emacs Agent Shell", version: "0.56.1" },
      clientCapabilities: { ...FS_CAPABILITIES, terminal: true },
    },
    prompt: (file) => [
      createTextBlock("look at "),
      { ...createLinkBlock(file), mimeType: "text/plain", size: 26 },
      createTextBlock(QUESTION),
    ],
    expectedTexts: (file) => ["look at ", `[@answer.ts](file://${file})`, QUESTION],
    profile: "official",
  },
  {
    name: "forwards two separate texts (CodeCompanion.nvim with #{buffer})",
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: FS_CAPABILITIES },
    prompt: (file) => [
      createTextBlock(`Sharing the following file as context: ${file}`),
      createTextBlock("What is wrong here?"),
    ],
    expectedTexts: (file) => [`Sharing the following file as context: ${file}`, "What is wrong here?"],
    profile: "official",
  },
  {
    name: "forwards an embedded file before the question (CodeCompanion.nvim)",
    runsInProcess: true,
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: FS_CAPABILITIES },
    prompt: (file) => [createResourceBlock(file), createTextBlock("What is wrong here?")],
    expectedTexts: (file) => [`file://${file}`, FILE_CONTENT.trim(), "What is wrong here?"],
    profile: "official",
  },
  {
    name: "forwards an embedded file and a link inside a sentence (Zed)",
    initialize: {
      clientInfo: { name: "zed", title: "stable", version: "1.4.2" },
      clientCapabilities: {
        ...FS_CAPABILITIES,
        terminal: true,
        _meta: { terminal_output: true, "terminal-auth": true },
      },
    },
    prompt: (file) => [
      createTextBlock("Compare "),
      createResourceBlock(file),
      createTextBlock(" with "),
      { type: "resource_link", uri: `file://${file}#L1:1`, name: "answer.ts (1:1)" },
      createTextBlock(", please"),
    ],
    expectedTexts: (file) => [
      "Compare ",
      FILE_CONTENT.trim(),
      " with ",
      `[@answer.ts (1:1)](file://${file}#L1:1)`,
      ", please",
    ],
    profile: "official",
  },
  {
    name: "forwards a link before the question (avante.nvim without clientInfo)",
    runsInProcess: true,
    initialize: { clientCapabilities: FS_CAPABILITIES },
    prompt: (file) => [createLinkBlock(file), createTextBlock("What is wrong here?")],
    expectedTexts: (file) => [`[@answer.ts](file://${file})`, "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "forwards an embedded file in profile spec (Obsidian Agent Client, which declares only a terminal)",
    runsInProcess: true,
    initialize: {
      clientInfo: { name: "some-notes", version: "1" },
      clientCapabilities: { ...NO_CAPABILITIES, terminal: true },
    },
    prompt: (file) => [createResourceBlock(file), createTextBlock("What is wrong here?")],
    expectedTexts: () => [FILE_CONTENT.trim(), "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "forwards a link between two texts (JetBrains IDE)",
    runsInProcess: true,
    initialize: {
      clientInfo: { name: "JetBrains.IntelliJ IDEA", version: "2026.2" },
      clientCapabilities: NO_CAPABILITIES,
    },
    prompt: (file) => [createTextBlock("look at"), createLinkBlock(file), createTextBlock(QUESTION)],
    expectedTexts: (file) => ["look at", `file://${file}`, QUESTION],
    profile: "official",
  },
  {
    name: "forwards a system prompt and a question (AI SDK bridge with file capabilities)",
    initialize: { clientCapabilities: FS_CAPABILITIES },
    prompt: () => [createTextBlock("System: You are terse."), createTextBlock("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "spec",
  },
  {
    name: "forwards only the first text and logs one warning (AI SDK bridge without capabilities)",
    initialize: { clientCapabilities: NO_CAPABILITIES },
    prompt: () => [createTextBlock("System: You are terse."), createTextBlock("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse."],
    profile: "spec",
    ignoredTypes: ["text"],
  },
  {
    name: "forwards all texts with --acp-profile official (AI SDK bridge without capabilities)",
    initialize: { clientCapabilities: NO_CAPABILITIES },
    args: ["--acp-profile", "official"],
    prompt: () => [createTextBlock("System: You are terse."), createTextBlock("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "official",
  },
  {
    name: "forwards only the first text, not links or further texts (named client without capabilities)",
    runsInProcess: true,
    initialize: { clientInfo: { name: "my-client", version: "1" } },
    prompt: (file) => [createTextBlock("first"), createLinkBlock(file), createTextBlock("second")],
    expectedTexts: () => ["first"],
    profile: "spec",
    ignoredTypes: ["resource_link", "text"],
  },
  {
    name: "forwards only the first text with --acp-profile spec and logs one warning (Zed)",
    initialize: { clientInfo: { name: "zed", version: "1" }, clientCapabilities: FS_CAPABILITIES },
    args: ["--acp-profile", "spec"],
    prompt: (file) => [createTextBlock("first"), createResourceBlock(file), createTextBlock("second")],
    expectedTexts: () => ["first"],
    profile: "spec",
    ignoredTypes: ["resource", "text"],
  },
];

async function startModelWithConfig(t: Hooks) {
  const model = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
  t.after(() => model.close());
  const models = [{ id: "m1", name: "M 1", context_window: 8000, max_output: 4000 }];
  const provider = { name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models };
  return { model, config: { providers: [provider] } };
}

/** The text of the last user message that the model received. */
function getLastUserText(body: Json): string {
  const { content } = body.messages.filter(({ role }: Json) => role === "user").at(-1);
  return typeof content === "string" ? content : content.map((part: Json) => part.text ?? "").join("\n");
}

function assertTextsReachModel(receivedText: string, editor: Editor, file: string): void {
  let searchOffset = 0;
  for (const expectedText of editor.expectedTexts(file)) {
    const offset = receivedText.indexOf(expectedText, searchOffset);
    assert.ok(
      offset >= 0,
      `${JSON.stringify(expectedText)} is missing or misplaced in ${JSON.stringify(receivedText)}`,
    );
    searchOffset = offset + expectedText.length;
  }
  if (editor.ignoredTypes)
    assert.equal(receivedText, editor.expectedTexts(file).join(""), "the model receives no other text");
}

const stdioEditors = EDITORS.filter(({ runsInProcess }) => !runsInProcess);

describe("session/prompt over stdio", { concurrency: 4 }, () => {
  for (const editor of stdioEditors) {
    it(editor.name, async (t) => {
      const { model, config } = await startModelWithConfig(t);
      model.enqueue(textStep("One."), textStep("Two."));
      const { gantry, peer } = await spawnAcpServer(t, { config, args: editor.args ?? [], profile: editor.profile });
      const file = `${gantry.projectDir}/answer.ts`;
      await peer.initialize(editor.initialize);
      const session = await peer.newSession(gantry.projectDir);
      const prompt = editor.prompt(file);
      for (let i = 0; i < 2; i += 1) {
        const result = await peer.request("session/prompt", { sessionId: session, prompt });
        assert.deepEqual(result, { stopReason: "end_turn" });
      }
      const runRequests = model.requests.filter(({ tools }) => tools.length > 0);
      assert.equal(runRequests.length, 2);
      const receivedText = getLastUserText(runRequests[0]?.body);
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(receivedText)}`);
      assertTextsReachModel(receivedText, editor, file);
      const loadResult = await peer.request("session/load", {
        sessionId: session,
        cwd: gantry.projectDir,
        mcpServers: [],
      });
      assert.equal(loadResult?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      gantry.child.stdin.end();
      assert.equal((await gantry.exited).code, 0);
      const warnings = gantry.stderr.split("\n").filter((line) => line.includes("prompt blocks ignored"));
      assert.equal(warnings.length, editor.ignoredTypes ? 1 : 0, `at most one warning per session: ${gantry.stderr}`);
      for (const type of editor.ignoredTypes ?? []) assert.ok(warnings[0]?.includes(type));
      peer.assertNoValidationErrors();
    });
  }
});

describe("session/prompt in process", () => {
  for (const editor of EDITORS.filter(({ runsInProcess }) => runsInProcess)) {
    it(editor.name, async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = createScriptedAgent(t, ["One."]);
      const peer = new InProcessAcp(t, agent).connect();
      peer.profile = editor.profile;
      await peer.initialize(editor.initialize);
      const session = await peer.newSession(cwd);
      const prompt = editor.prompt(`${cwd}/answer.ts`);
      await peer.request("session/prompt", { sessionId: session, prompt });
      const parts = provider.requests[0]?.messages.at(-1)?.parts ?? [];
      const receivedText = parts.map((part) => ("text" in part ? part.text : "")).join("");
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(receivedText)}`);
      assertTextsReachModel(receivedText, editor, `${cwd}/answer.ts`);
      const loadResult = await peer.request("session/load", { sessionId: session, cwd, mcpServers: [] });
      assert.equal(loadResult?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      peer.assertNoValidationErrors();
    });
  }
});
