import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { danglingCalls, INTERRUPTED, modelView, repairMessages, textOf } from "../../../src/conversation/messages.js";
import { fc } from "../../helpers/properties.js";

const message = (role: ModelMessage["role"], parts: Part[], toolCallId = ""): ModelMessage => ({
  role,
  parts,
  toolCallId,
  name: toolCallId === "" ? "" : "t",
  failed: false,
});
const user = (text: string) => message("user", [{ type: "text", text }]);
const calls = (...ids: string[]) =>
  message(
    "assistant",
    ids.map((id) => ({ type: "tool_call", id, name: "t", arguments: "{}" })),
  );
const answer = (id: string, text = "out") => message("tool", [{ type: "text", text }], id);
const shape = (messages: readonly ModelMessage[]) =>
  messages.map((m) => (m.role === "tool" ? `${m.toolCallId}=${textOf(m)}` : m.role));

describe("repairMessages", () => {
  it("adds an interrupted result for a call without a result", () => {
    const broken = [user("x"), calls("a", "b"), answer("b"), user("y")];
    assert.deepEqual(shape(repairMessages(broken)), ["user", "assistant", "b=out", `a=${INTERRUPTED}`, "user"]);
    assert.deepEqual(
      danglingCalls(broken).map(({ call }) => call.id),
      ["a"],
    );
  });

  it("moves a late result after its call, and removes results without a call", () => {
    const broken = [answer("zero"), calls("a"), user("y"), answer("a"), answer("a", "twice")];
    assert.deepEqual(shape(repairMessages(broken)), ["assistant", "a=out", "user"]);
  });

  it("removes empty messages and the second use of a call id", () => {
    assert.deepEqual(
      shape(repairMessages([message("assistant", []), calls("a"), answer("a"), calls("a"), user("x")])),
      ["assistant", "a=out", "user"],
    );
  });

  it("returns a result directly after each call and unique call ids for any messages, and is idempotent", () => {
    const id = fc.constantFrom("a", "b", "c", "d");
    const any = fc.oneof(
      fc.constant(user("x")),
      fc.array(id, { maxLength: 3 }).map((ids) => calls(...ids)),
      id.map((callId) => answer(callId)),
    );
    fc.assert(
      fc.property(fc.array(any, { maxLength: 12 }), (messages) => {
        const repaired = repairMessages(messages);
        assert.deepEqual(repairMessages(repaired), repaired);
        let open: string[] = [];
        const seen = new Set<string>();
        for (const m of repaired) {
          if (m.role === "tool") {
            assert.ok(open.includes(m.toolCallId), "an answer stands right behind its call");
            open = open.filter((callId) => callId !== m.toolCallId);
            continue;
          }
          assert.deepEqual(open, [], "all calls are answered before the next message");
          open = m.parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : []));
          for (const callId of open) {
            assert.ok(!seen.has(callId));
            seen.add(callId);
          }
        }
        assert.deepEqual(open, []);
      }),
    );
  });
});

describe("modelView", () => {
  it("removes reasoning and opaque data of another model, and messages that contain only reasoning", () => {
    const opaque = { provider: "p", model: "m", data: 1 };
    const answerMessage = message("assistant", [
      { type: "reasoning", text: "r", opaque },
      { type: "text", text: "t", opaque },
    ]);
    const reasoningMessage = message("assistant", [{ type: "reasoning", text: "r", opaque }]);
    assert.deepEqual(modelView([answerMessage, reasoningMessage], { provider: "p", model: "m" }), [answerMessage]);
    assert.deepEqual(modelView([answerMessage], { provider: "p", model: "other" })[0]?.parts, [
      { type: "text", text: "t" },
    ]);
  });
});
