import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Profile } from "../../../adapters/acp-shared/index.js";
import { spawnAcp } from "../../helpers/acp-process.js";
import type { Json } from "../../helpers/acp-peer.js";
import { say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { MemoryAcp, scriptedAgent } from "../../helpers/acp-agent.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/** The `initialize` parameters of an editor, and a prompt in its format. */
interface Editor {
  name: string;
  /** Runs without a separate process, because starting a process is slow. The code under test is the same. */
  inProcess?: true;
  initialize: Json;
  /** `file` is the absolute path of a project file. */
  prompt(file: string): Json[];
  /** Texts that must reach the model, in this order. */
  expectedTexts(file: string): string[];
  /** The profile of the rest of the conversation. */
  profile: Profile;
  args?: string[];
  /** Types of ignored content blocks, as the log names them. */
  ignoredTypes?: string[];
}

const BOTH = { fs: { readTextFile: true, writeTextFile: true } };
const NEITHER = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
const QUESTION = " and say what is wrong with it";
const CONTENT = "export const answer = 41;\n";

const embedded = (file: string): Json => ({
  type: "resource",
  resource: { uri: `file://${file}`, text: CONTENT, mimeType: "text/plain" },
});
const linked = (file: string): Json => ({ type: "resource_link", uri: `file://${file}`, name: "answer.ts" });
const text = (content: string): Json => ({ type: "text", text: content });

// Taken from the source of each editor, with its own names and capabilities.
const EDITORS: readonly Editor[] = [
  {
    name: "forwards text, an embedded file and a question (agent-shell without clientInfo)",
    initialize: { clientCapabilities: BOTH },
    prompt: (file) => [text("look at "), embedded(file), text(QUESTION)],
    expectedTexts: (file) => ["look at ", `file://${file}`, CONTENT.trim(), QUESTION],
    profile: "spec",
  },
  {
    name: "forwards a file as a link between two texts (agent-shell, large file)",
    inProcess: true,
    initialize: {
      clientInfo: { name: "agent-shell", title: "Emacs Agent Shell", version: "0.56.1" },
      clientCapabilities: { ...BOTH, terminal: true },
    },
    prompt: (file) => [text("look at "), { ...linked(file), mimeType: "text/plain", size: 26 }, text(QUESTION)],
    expectedTexts: (file) => ["look at ", `[@answer.ts](file://${file})`, QUESTION],
    profile: "official",
  },
  {
    name: "forwards two separate texts (CodeCompanion.nvim with #{buffer})",
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: BOTH },
    prompt: (file) => [text(`Sharing the following file as context: ${file}`), text("What is wrong here?")],
    expectedTexts: (file) => [`Sharing the following file as context: ${file}`, "What is wrong here?"],
    profile: "official",
  },
  {
    name: "forwards an embedded file before the question (CodeCompanion.nvim)",
    inProcess: true,
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: BOTH },
    prompt: (file) => [embedded(file), text("What is wrong here?")],
    expectedTexts: (file) => [`file://${file}`, CONTENT.trim(), "What is wrong here?"],
    profile: "official",
  },
  {
    name: "forwards an embedded file and a link inside a sentence (Zed)",
    initialize: {
      clientInfo: { name: "zed", title: "stable", version: "1.4.2" },
      clientCapabilities: { ...BOTH, terminal: true, _meta: { terminal_output: true, "terminal-auth": true } },
    },
    prompt: (file) => [
      text("Compare "),
      embedded(file),
      text(" with "),
      { type: "resource_link", uri: `file://${file}#L1:1`, name: "answer.ts (1:1)" },
      text(", please"),
    ],
    expectedTexts: (file) => [
      "Compare ",
      CONTENT.trim(),
      " with ",
      `[@answer.ts (1:1)](file://${file}#L1:1)`,
      ", please",
    ],
    profile: "official",
  },
  {
    name: "forwards a link before the question (avante.nvim without clientInfo)",
    inProcess: true,
    initialize: { clientCapabilities: BOTH },
    prompt: (file) => [linked(file), text("What is wrong here?")],
    expectedTexts: (file) => [`[@answer.ts](file://${file})`, "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "forwards an embedded file in profile spec (Obsidian Agent Client, which declares only a terminal)",
    inProcess: true,
    initialize: {
      clientInfo: { name: "some-notes", version: "1" },
      clientCapabilities: { ...NEITHER, terminal: true },
    },
    prompt: (file) => [embedded(file), text("What is wrong here?")],
    expectedTexts: () => [CONTENT.trim(), "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "forwards a link between two texts (JetBrains IDE)",
    inProcess: true,
    initialize: { clientInfo: { name: "JetBrains.IntelliJ IDEA", version: "2026.2" }, clientCapabilities: NEITHER },
    prompt: (file) => [text("look at"), linked(file), text(QUESTION)],
    expectedTexts: (file) => ["look at", `file://${file}`, QUESTION],
    profile: "official",
  },
  {
    name: "forwards a system prompt and a question (AI SDK bridge with file capabilities)",
    initialize: { clientCapabilities: BOTH },
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "spec",
  },
  {
    name: "forwards only the first text and logs one warning (AI SDK bridge without capabilities)",
    initialize: { clientCapabilities: NEITHER },
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse."],
    profile: "spec",
    ignoredTypes: ["text"],
  },
  {
    name: "forwards all texts with --acp-profile official (AI SDK bridge without capabilities)",
    initialize: { clientCapabilities: NEITHER },
    args: ["--acp-profile", "official"],
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    expectedTexts: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "official",
  },
  {
    name: "forwards only the first text, not links or further texts (named client without capabilities)",
    inProcess: true,
    initialize: { clientInfo: { name: "my-client", version: "1" } },
    prompt: (file) => [text("first"), linked(file), text("second")],
    expectedTexts: () => ["first"],
    profile: "spec",
    ignoredTypes: ["resource_link", "text"],
  },
  {
    name: "forwards only the first text with --acp-profile spec and logs one warning (Zed)",
    initialize: { clientInfo: { name: "zed", version: "1" }, clientCapabilities: BOTH },
    args: ["--acp-profile", "spec"],
    prompt: (file) => [text("first"), embedded(file), text("second")],
    expectedTexts: () => ["first"],
    profile: "spec",
    ignoredTypes: ["resource", "text"],
  },
];

async function lab(t: Hooks) {
  const model = await startFakeModelServer({ aside: say("A title") });
  t.after(() => model.close());
  const models = [{ id: "m1", name: "M 1", context_window: 8000, max_output: 4000 }];
  const provider = { name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models };
  return { model, config: { providers: [provider] } };
}

/** The text of the last user message that the model received. */
function lastUserText(body: Json): string {
  const { content } = body.messages.filter(({ role }: Json) => role === "user").at(-1);
  return typeof content === "string" ? content : content.map((part: Json) => part.text ?? "").join("\n");
}

function assertReaches(receivedText: string, editor: Editor, file: string): void {
  let from = 0;
  for (const piece of editor.expectedTexts(file)) {
    const at = receivedText.indexOf(piece, from);
    assert.ok(at >= 0, `${JSON.stringify(piece)} is missing or out of place in ${JSON.stringify(receivedText)}`);
    from = at + piece.length;
  }
  if (editor.ignoredTypes) assert.equal(receivedText, editor.expectedTexts(file).join(""), "nothing else");
}

const overStdio = EDITORS.filter(({ inProcess }) => !inProcess);

describe("session/prompt over stdio", { concurrency: 4 }, () => {
  for (const editor of overStdio) {
    it(editor.name, async (t) => {
      const { model, config } = await lab(t);
      model.enqueue(say("One."), say("Two."));
      const { gantry, peer } = await spawnAcp(t, { config, args: editor.args ?? [], profile: editor.profile });
      const file = `${gantry.projectDir}/answer.ts`;
      await peer.initialize(editor.initialize);
      const session = await peer.newSession(gantry.projectDir);
      const prompt = editor.prompt(file);
      for (let i = 0; i < 2; i += 1) {
        const result = await peer.request("session/prompt", { sessionId: session, prompt });
        assert.deepEqual(result, { stopReason: "end_turn" });
      }
      const runs = model.requests.filter(({ tools }) => tools.length > 0);
      assert.equal(runs.length, 2);
      const receivedText = lastUserText(runs[0]?.body);
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(receivedText)}`);
      assertReaches(receivedText, editor, file);
      const loaded = await peer.request("session/load", { sessionId: session, cwd: gantry.projectDir, mcpServers: [] });
      assert.equal(loaded?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      gantry.child.stdin.end();
      assert.equal((await gantry.exited).code, 0);
      const warnings = gantry.stderr.split("\n").filter((line) => line.includes("prompt blocks ignored"));
      assert.equal(warnings.length, editor.ignoredTypes ? 1 : 0, `one warning a session: ${gantry.stderr}`);
      for (const type of editor.ignoredTypes ?? []) assert.ok(warnings[0]?.includes(type));
      peer.assertClean();
    });
  }
});

describe("session/prompt in process", () => {
  for (const editor of EDITORS.filter(({ inProcess }) => inProcess)) {
    it(editor.name, async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = scriptedAgent(t, ["One."]);
      const peer = new MemoryAcp(t, agent).connect();
      peer.profile = editor.profile;
      await peer.initialize(editor.initialize);
      const session = await peer.newSession(cwd);
      const prompt = editor.prompt(`${cwd}/answer.ts`);
      await peer.request("session/prompt", { sessionId: session, prompt });
      const parts = provider.requests[0]?.messages.at(-1)?.parts ?? [];
      const receivedText = parts.map((part) => ("text" in part ? part.text : "")).join("");
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(receivedText)}`);
      assertReaches(receivedText, editor, `${cwd}/answer.ts`);
      const loaded = await peer.request("session/load", { sessionId: session, cwd, mcpServers: [] });
      assert.equal(loaded?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      peer.assertClean();
    });
  }
});
