import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Conversation } from "../../../src/conversation/conversation.js";
import { ConversationCache } from "../../../src/run/context/conversation-cache.js";
import { createNewSession } from "../../../src/sessions/new-session.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Returns text that shares no memory with other text. */
function createText(characters: number, id: number): string {
  return Buffer.from(`${id} `.padEnd(characters, "x")).toString();
}

describe("the size of cached conversations", () => {
  it("is what they occupy in the heap, within a factor of two, for short and long ones", () => {
    for (const [turns, characters] of [
      [1, 20],
      [1, 2_000],
      [20, 20],
      [20, 2_000],
    ] as const) {
      const cache = new ConversationCache(Infinity);
      collectGarbage();
      const heapBytesBefore = process.memoryUsage().heapUsed;
      for (let id = 0; id < 200; id++) {
        const conversation = new Conversation(createNewSession({}, { projectDir: `/${id}`, mode: "auto" }), []);
        for (const role of Array.from({ length: turns }, () => ["user", "assistant"] as const).flat()) {
          const parts = [{ type: "text" as const, text: createText(characters, id) }];
          conversation.add(conversation.compose({ role, parts, toolCallId: "", name: "", failed: false }));
        }
        conversation.modelMessages.prepare(conversation.messages, { provider: "p", model: "m" });
        cache.keep(String(id), 1, conversation);
      }
      collectGarbage();
      const heapBytes = process.memoryUsage().heapUsed - heapBytesBefore;
      const ratio = cache.bytes / heapBytes;
      assert.ok(
        ratio > 0.8 && ratio < 2,
        `${turns} turns of ${characters} characters: ${ratio.toFixed(2)} of the heap`,
      );
      cache.clear();
    }
  });
});
