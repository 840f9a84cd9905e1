import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import type { ModelMessage, ModelRequest } from "gantry/plugin";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { attachState, detachState } from "../../../src/compaction/attached-state.js";
import { SUMMARY_HEADER } from "../../../src/compaction/units.js";
import { recordChangedFiles } from "../../../src/tools/files/changed-files.js";
import { tempDir } from "../../helpers/temp-dir.js";

function createUserMessage(...texts: string[]): ModelMessage {
  const parts = texts.map((text) => ({ type: "text", text }) as const);
  return { role: "user", parts, toolCallId: "", name: "", failed: false };
}

const toText = ({ parts }: ModelMessage) => parts.map((part) => ("text" in part ? part.text : "")).join("\n");

function createState(content: string, files: readonly string[] = []): Map<string, unknown> {
  const state = new Map<string, unknown>([["todos", [{ content, status: "pending" }]]]);
  recordChangedFiles(state, files, "/project");
  return state;
}

describe("the state of a session in a compacted view", () => {
  it("is appended to the summary, or to the first prompt if there is no summary, and can be removed again", () => {
    const state = createState("paint", ["/project/a.ts", "b.ts", "b.ts", "/elsewhere/c.ts"]);
    const withSummary = attachState(
      [createUserMessage("goal"), createUserMessage(`${SUMMARY_HEADER}notes`), createUserMessage("now")],
      state,
      1_000,
    );
    const text =
      "[State of this session, attached again because older messages left the context window]\n\n" +
      "Todo list:\n[ ] paint\n\nFiles changed by tools (commands may have changed others):\n- a.ts\n- b.ts\n- /elsewhere/c.ts";
    assert.deepEqual(withSummary.map(toText), ["goal", `${SUMMARY_HEADER}notes\n${text}`, "now"]);
    const withoutSummary = attachState([createUserMessage("goal"), createUserMessage("now")], state, 1_000);
    assert.deepEqual(withoutSummary.map(toText), [`goal\n${text}`, "now"]);
    assert.deepEqual(withoutSummary.map(detachState), [createUserMessage("goal"), createUserMessage("now")]);
    // A user can paste this text as a prompt.
    assert.deepEqual(detachState(createUserMessage(text)), createUserMessage(text));
  });

  it("leaves the messages unchanged if no tool stored valid state", () => {
    const messages = [createUserMessage("goal")];
    assert.equal(attachState(messages, new Map(), 1_000), messages);
    assert.equal(attachState(messages, new Map([["todos", "damaged"]]), 1_000), messages);
  });

  it("lists the newest 100 changed files and stays within its byte limit", () => {
    const files = Array.from({ length: 250 }, (_, i) => `src/file-${i}.ts`);
    const [message] = attachState([createUserMessage("goal")], createState("paint", files), 100_000);
    const lines = toText(message!).split("\n");
    assert.equal(lines.filter((line) => /^- src/.test(line)).length, 100);
    assert.ok(lines.includes("- 150 more, changed earlier") && lines.includes("- src/file-249.ts"));
    const [shortMessage] = attachState([createUserMessage("")], createState("long ".repeat(10_000), files), 2_000);
    // A line feed separates the prompt from the state.
    assert.ok(Buffer.byteLength(toText(shortMessage!)) <= 2_001);
  });

  it("lists changed files except files of failed calls, occurs once, and is not in later summary requests", async (t) => {
    const folder = await tempDir(t, { "large.txt": "x".repeat(1_500_000), "kept.txt": "kept" });
    const summaryRequests: ModelRequest[] = [];
    const longText = "word ".repeat(1_500);
    const provider = new ScriptedProvider(
      [
        callTools(
          ["edit", { path: "large.txt", old_string: "x".repeat(10), new_string: "y" }],
          ["write", { path: "large.txt", content: "z".repeat(1_200_000) }],
          ["edit", { path: "kept.txt", old_string: "missing", new_string: "y" }],
          ["delete", { path: "missing.txt" }],
          ["todowrite", { todos: [{ content: "stale item", status: "in_progress" }] }],
        ),
        say("ok"),
      ],
      {
        models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 16_000 }],
        fallback: (request) => {
          if (request.tools.length > 0) return say(longText);
          summaryRequests.push(request);
          return say("notes");
        },
      },
    );
    const tools = builtinTools();
    const agent = new Agent({ providers: [provider], tools, projectDir: folder.path, projectInstructions: false });
    t.after(() => agent.close());
    const { sessionId, result } = await agent.run({ message: "begin" });
    await result;
    const compactionStrategies: string[] = [];
    agent.on("session.compacted", ({ strategy }) => compactionStrategies.push(strategy));
    for (let n = 0; compactionStrategies.length < 3; n++) {
      assert.ok(n < 50, "three compactions occur within 50 runs");
      await (
        await agent.run({ message: `${n} ${longText}`, sessionId })
      ).result;
    }
    const view = await agent.sessions.messages(sessionId, { view: "model" });
    const viewText = view.map(toText).join("\n");
    assert.match(viewText, /\[>\] stale item/);
    assert.match(viewText, /- large\.txt/);
    assert.equal(/- (kept|missing)\.txt/.test(viewText), false, viewText);
    assert.equal(viewText.split("[State of this session").length, 2, "the view contains the state once");
    const transcripts = summaryRequests.slice(1).map(({ messages }) => messages.map(toText).join("\n"));
    assert.ok(transcripts.length > 0);
    for (const transcript of transcripts) assert.equal(transcript.includes("[State of this session"), false);
  });
});
