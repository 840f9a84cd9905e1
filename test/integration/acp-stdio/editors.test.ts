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
  reaches(file: string): string[];
  /** The profile of the rest of the conversation. */
  profile: Profile;
  args?: string[];
  /** Types of blocks that are omitted, as named in the log. */
  dropped?: string[];
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
    name: "agent-shell before it named itself: text, an embedded file, the question",
    initialize: { clientCapabilities: BOTH },
    prompt: (file) => [text("look at "), embedded(file), text(QUESTION)],
    reaches: (file) => ["look at ", `file://${file}`, CONTENT.trim(), QUESTION],
    profile: "spec",
  },
  {
    name: "agent-shell: a file that is too large is a link",
    inProcess: true,
    initialize: {
      clientInfo: { name: "agent-shell", title: "Emacs Agent Shell", version: "0.56.1" },
      clientCapabilities: { ...BOTH, terminal: true },
    },
    prompt: (file) => [text("look at "), { ...linked(file), mimeType: "text/plain", size: 26 }, text(QUESTION)],
    reaches: (file) => ["look at ", `[@answer.ts](file://${file})`, QUESTION],
    profile: "official",
  },
  {
    name: "CodeCompanion.nvim: #{buffer} comes first, as a text of its own",
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: BOTH },
    prompt: (file) => [text(`Sharing the following file as context: ${file}`), text("What is wrong here?")],
    reaches: (file) => [`Sharing the following file as context: ${file}`, "What is wrong here?"],
    profile: "official",
  },
  {
    name: "CodeCompanion.nvim with an embedded buffer before the question",
    inProcess: true,
    initialize: { clientInfo: { name: "CodeCompanion.nvim", version: "1.0.0" }, clientCapabilities: BOTH },
    prompt: (file) => [embedded(file), text("What is wrong here?")],
    reaches: (file) => [`file://${file}`, CONTENT.trim(), "What is wrong here?"],
    profile: "official",
  },
  {
    name: "Zed: mentions in the middle of a sentence",
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
    reaches: (file) => ["Compare ", CONTENT.trim(), " with ", `[@answer.ts (1:1)](file://${file}#L1:1)`, ", please"],
    profile: "official",
  },
  {
    name: "avante.nvim: nameless, links of the selected files first",
    inProcess: true,
    initialize: { clientCapabilities: BOTH },
    prompt: (file) => [linked(file), text("What is wrong here?")],
    reaches: (file) => [`[@answer.ts](file://${file})`, "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "Obsidian's Agent Client: a terminal alone is declared",
    inProcess: true,
    initialize: {
      clientInfo: { name: "some-notes", version: "1" },
      clientCapabilities: { ...NEITHER, terminal: true },
    },
    prompt: (file) => [embedded(file), text("What is wrong here?")],
    reaches: () => [CONTENT.trim(), "What is wrong here?"],
    profile: "spec",
  },
  {
    name: "a JetBrains IDE",
    inProcess: true,
    initialize: { clientInfo: { name: "JetBrains.IntelliJ IDEA", version: "2026.2" }, clientCapabilities: NEITHER },
    prompt: (file) => [text("look at"), linked(file), text(QUESTION)],
    reaches: (file) => ["look at", `file://${file}`, QUESTION],
    profile: "official",
  },
  {
    name: "an AI SDK bridge that declares files: system prompt, then question",
    initialize: { clientCapabilities: BOTH },
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    reaches: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "spec",
  },
  {
    name: "an AI SDK bridge that declares nothing is to the letter, and the log says so once",
    initialize: { clientCapabilities: NEITHER },
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    reaches: () => ["System: You are terse."],
    profile: "spec",
    dropped: ["text"],
  },
  {
    name: "the same with --acp-profile official",
    initialize: { clientCapabilities: NEITHER },
    args: ["--acp-profile", "official"],
    prompt: () => [text("System: You are terse."), text("What is 6 x 7?")],
    reaches: () => ["System: You are terse.", "What is 6 x 7?"],
    profile: "official",
  },
  {
    name: "a client of the interface document, which names itself and declares nothing",
    inProcess: true,
    initialize: { clientInfo: { name: "my-client", version: "1" } },
    prompt: (file) => [text("first"), linked(file), text("second")],
    reaches: () => ["first"],
    profile: "spec",
    dropped: ["resource_link", "text"],
  },
  {
    name: "an editor under --acp-profile spec gets the letter",
    initialize: { clientInfo: { name: "zed", version: "1" }, clientCapabilities: BOTH },
    args: ["--acp-profile", "spec"],
    prompt: (file) => [text("first"), embedded(file), text("second")],
    reaches: () => ["first"],
    profile: "spec",
    dropped: ["resource", "text"],
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

function assertReaches(got: string, editor: Editor, file: string): void {
  let from = 0;
  for (const piece of editor.reaches(file)) {
    const at = got.indexOf(piece, from);
    assert.ok(at >= 0, `${JSON.stringify(piece)} is missing or out of place in ${JSON.stringify(got)}`);
    from = at + piece.length;
  }
  if (editor.dropped) assert.equal(got, editor.reaches(file).join(""), "nothing else");
}

const overStdio = EDITORS.filter(({ inProcess }) => !inProcess);

describe("what editors send over stdio reaches the model", { concurrency: 4 }, () => {
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
      const got = lastUserText(runs[0]?.body);
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(got)}`);
      assertReaches(got, editor, file);
      const loaded = await peer.request("session/load", { sessionId: session, cwd: gantry.projectDir, mcpServers: [] });
      assert.equal(loaded?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      gantry.child.stdin.end();
      assert.equal((await gantry.exited).code, 0);
      const warnings = gantry.stderr.split("\n").filter((line) => line.includes("prompt parts ignored"));
      assert.equal(warnings.length, editor.dropped ? 1 : 0, `one warning a session: ${gantry.stderr}`);
      for (const type of editor.dropped ?? []) assert.ok(warnings[0]?.includes(type));
      peer.assertClean();
    });
  }
});

describe("what other clients send reaches the model", () => {
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
      const got = parts.map((part) => ("text" in part ? part.text : "")).join("");
      t.diagnostic(`${JSON.stringify(prompt)} -> ${JSON.stringify(got)}`);
      assertReaches(got, editor, `${cwd}/answer.ts`);
      const loaded = await peer.request("session/load", { sessionId: session, cwd, mcpServers: [] });
      assert.equal(loaded?.modes?.currentModeId ?? null, editor.profile === "spec" ? null : "auto");
      peer.assertClean();
    });
  }
});
