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

describe("the repair of a conversation", () => {
  it("answers calls that nobody answered", () => {
    const broken = [user("x"), calls("a", "b"), answer("b"), user("y")];
    assert.deepEqual(shape(repairMessages(broken)), ["user", "assistant", "b=out", `a=${INTERRUPTED}`, "user"]);
    assert.deepEqual(
      danglingCalls(broken).map(({ call }) => call.id),
      ["a"],
    );
  });

  it("puts a late answer behind its call and leaves out one without a call", () => {
    const broken = [answer("zero"), calls("a"), user("y"), answer("a"), answer("a", "twice")];
    assert.deepEqual(shape(repairMessages(broken)), ["assistant", "a=out", "user"]);
  });

  it("leaves out empty messages, and the second use of a call's id", () => {
    assert.deepEqual(
      shape(repairMessages([message("assistant", []), calls("a"), answer("a"), calls("a"), user("x")])),
      ["assistant", "a=out", "user"],
    );
  });

  it("gives what every provider takes, whatever it gets, and changes nothing the second time", () => {
    const id = fc.constantFrom("a", "b", "c", "d");
    const any = fc.oneof(
      fc.constant(user("x")),
      fc.array(id, { maxLength: 3 }).map((ids) => calls(...ids)),
      id.map((callId) => answer(callId)),
    );
    fc.assert(
      fc.property(fc.array(any, { maxLength: 12 }), (messages) => {
        const once = repairMessages(messages);
        assert.deepEqual(repairMessages(once), once);
        let open: string[] = [];
        const seen = new Set<string>();
        for (const m of once) {
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

describe("what a model sees", () => {
  it("has no reasoning or opaque field of another pair, and no message of reasoning alone", () => {
    const opaque = { provider: "p", model: "m", data: 1 };
    const answerMessage = message("assistant", [
      { type: "reasoning", text: "r", opaque },
      { type: "text", text: "t", opaque },
    ]);
    const thought = message("assistant", [{ type: "reasoning", text: "r", opaque }]);
    assert.deepEqual(modelView([answerMessage, thought], { provider: "p", model: "m" }), [answerMessage]);
    assert.deepEqual(modelView([answerMessage], { provider: "p", model: "other" })[0]?.parts, [
      { type: "text", text: "t" },
    ]);
  });
});
