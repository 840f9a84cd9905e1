import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import {
  findDanglingCalls,
  INTERRUPTED_CALL_RESULT,
  toModelView,
  repairMessages,
  textOf,
} from "../../../src/conversation/messages.js";
import { fc } from "../../helpers/fast-check.js";

const createMessage = (role: ModelMessage["role"], parts: Part[], toolCallId = ""): ModelMessage => ({
  role,
  parts,
  toolCallId,
  name: toolCallId === "" ? "" : "t",
  failed: false,
});
const createUserMessage = (text: string) => createMessage("user", [{ type: "text", text }]);
const createCallMessage = (...ids: string[]) =>
  createMessage(
    "assistant",
    ids.map((id) => ({ type: "tool_call", id, name: "t", arguments: "{}" })),
  );
const createResultMessage = (id: string, text = "out") => createMessage("tool", [{ type: "text", text }], id);
const describeMessages = (messages: readonly ModelMessage[]) =>
  messages.map((m) => (m.role === "tool" ? `${m.toolCallId}=${textOf(m)}` : m.role));

describe("repairMessages", () => {
  it("adds an interrupted result for a call without a result", () => {
    const brokenMessages = [
      createUserMessage("x"),
      createCallMessage("a", "b"),
      createResultMessage("b"),
      createUserMessage("y"),
    ];
    assert.deepEqual(describeMessages(repairMessages(brokenMessages)), [
      "user",
      "assistant",
      "b=out",
      `a=${INTERRUPTED_CALL_RESULT}`,
      "user",
    ]);
    assert.deepEqual(
      findDanglingCalls(brokenMessages).map(({ id }) => id),
      ["a"],
    );
  });

  it("moves a late result after its call, and removes results without a call", () => {
    const brokenMessages = [
      createResultMessage("zero"),
      createCallMessage("a"),
      createUserMessage("y"),
      createResultMessage("a"),
      createResultMessage("a", "twice"),
    ];
    assert.deepEqual(describeMessages(repairMessages(brokenMessages)), ["assistant", "a=out", "user"]);
  });

  it("removes empty messages and the second use of a call id", () => {
    assert.deepEqual(
      describeMessages(
        repairMessages([
          createMessage("assistant", []),
          createCallMessage("a"),
          createResultMessage("a"),
          createCallMessage("a"),
          createUserMessage("x"),
        ]),
      ),
      ["assistant", "a=out", "user"],
    );
  });

  it("returns a result directly after each call and unique call ids for any messages, and is idempotent", () => {
    const callIdArbitrary = fc.constantFrom("a", "b", "c", "d");
    const messageArbitrary = fc.oneof(
      fc.constant(createUserMessage("x")),
      fc.array(callIdArbitrary, { maxLength: 3 }).map((ids) => createCallMessage(...ids)),
      callIdArbitrary.map((callId) => createResultMessage(callId)),
    );
    fc.assert(
      fc.property(fc.array(messageArbitrary, { maxLength: 12 }), (messages) => {
        const repairedMessages = repairMessages(messages);
        assert.deepEqual(repairMessages(repairedMessages), repairedMessages);
        let openIds: string[] = [];
        const seenIds = new Set<string>();
        for (const repairedMessage of repairedMessages) {
          if (repairedMessage.role === "tool") {
            assert.ok(openIds.includes(repairedMessage.toolCallId), "a result belongs to an open call");
            openIds = openIds.filter((callId) => callId !== repairedMessage.toolCallId);
            continue;
          }
          assert.deepEqual(openIds, [], "all calls have results before the next message");
          openIds = repairedMessage.parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : []));
          for (const callId of openIds) {
            assert.ok(!seenIds.has(callId));
            seenIds.add(callId);
          }
        }
        assert.deepEqual(openIds, []);
      }),
    );
  });
});

describe("toModelView", () => {
  it("removes reasoning and opaque data of another model, and messages that contain only reasoning", () => {
    const opaque = { provider: "p", model: "m", data: 1 };
    const answerMessage = createMessage("assistant", [
      { type: "reasoning", text: "r", opaque },
      { type: "text", text: "t", opaque },
    ]);
    const reasoningMessage = createMessage("assistant", [{ type: "reasoning", text: "r", opaque }]);
    assert.deepEqual(toModelView([answerMessage, reasoningMessage], { provider: "p", model: "m" }), [answerMessage]);
    assert.deepEqual(toModelView([answerMessage], { provider: "p", model: "other" })[0]?.parts, [
      { type: "text", text: "t" },
    ]);
  });
});
