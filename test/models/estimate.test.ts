import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { estimatePrompt, type ModelMessage, type ModelRequest, type Part } from "gantry";
import { tokensOf } from "../../src/models/estimate.js";

const user = (...parts: Part[]): ModelMessage => ({ role: "user", parts, toolCallId: "", name: "", failed: false });
const model = { id: "m", name: "m", ownedBy: "x" };
const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  model,
  system: "",
  messages: [],
  tools: [],
  effort: "",
  cacheKey: "",
  ...more,
});

describe("a prompt's tokens", () => {
  it("are estimated at a token for three bytes of instructions, messages and tools", () => {
    const base = estimatePrompt(request());
    assert.ok(base < 10);
    const tool = { name: "t", description: "d".repeat(300), inputSchema: {} };
    const tools = [{ ...tool, kind: "other" as const, parallel: false, needsPermission: false }];
    for (const more of [
      { system: "s".repeat(300) },
      { messages: [user({ type: "text", text: "é".repeat(150) })] },
      { tools },
    ]) {
      const tokens = estimatePrompt(request(more)) - base;
      assert.ok(tokens >= 100 && tokens < 130, `${tokens}`);
    }
  });

  it("count 1,500 for an image, whatever its bytes", () => {
    const image = user({ type: "image", mediaType: "image/png", data: "A".repeat(100_000) });
    const tokens = tokensOf([image]);
    assert.ok(tokens >= 1500 && tokens < 1520, `${tokens}`);
  });
});
