import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import { estimatePrompt, type ModelMessage, type ModelRequest, type ToolSpec } from "gantry/plugin";
import { bytesOfPrefix, estimateTokens, bytesOfTool } from "../../../src/models/estimate.js";

/** Estimated size of a request without instructions, messages and tools. */
const REQUEST_OVERHEAD_BYTES = 16;

const createUserMessage = (...parts: Part[]): ModelMessage => ({
  role: "user",
  parts,
  toolCallId: "",
  name: "",
  failed: false,
});
const model = { id: "m", name: "m", ownedBy: "x" };
const createRequest = (overrides: Partial<ModelRequest> = {}): ModelRequest => ({
  model,
  system: "",
  messages: [],
  tools: [],
  effort: "",
  cacheKey: "",
  ...overrides,
});

function createToolSpec(fields: Partial<ToolSpec> = {}): ToolSpec {
  const inputSchema = { type: "object" as const, properties: { a: { type: "string" as const } } };
  return {
    name: "a",
    description: "Does.",
    inputSchema,
    kind: "other",
    parallel: false,
    needsPermission: false,
    ...fields,
  };
}

describe("the token estimate of a prompt", () => {
  it("counts about one token for three bytes of instructions, messages or tools", () => {
    const baseTokens = estimatePrompt(createRequest());
    assert.ok(baseTokens < 10);
    const tool = { name: "t", description: "d".repeat(300), inputSchema: {} };
    const tools = [{ ...tool, kind: "other" as const, parallel: false, needsPermission: false }];
    for (const addition of [
      { system: "s".repeat(300) },
      { messages: [createUserMessage({ type: "text", text: "é".repeat(150) })] },
      { tools },
    ]) {
      const tokens = estimatePrompt(createRequest(addition)) - baseTokens;
      assert.ok(tokens >= 100 && tokens < 130, `${tokens}`);
    }
  });

  it("counts about 1,500 tokens for an image with 100,000 characters of data", () => {
    const image = createUserMessage({ type: "image", mediaType: "image/png", data: "A".repeat(100_000) });
    const tokens = estimateTokens([image]);
    assert.ok(tokens >= 1500 && tokens < 1520, `${tokens}`);
  });
});

describe("bytesOfTool", () => {
  it("returns the same size at each call, and bytesOfPrefix adds up the sizes of all tools", () => {
    const [firstSpec, secondSpec] = [createToolSpec(), createToolSpec({ name: "b", description: "Does much more." })];
    const extraBytes = Buffer.byteLength("Does much more.") - Buffer.byteLength("Does.");
    for (let round = 0; round < 2; round++) {
      assert.equal(bytesOfTool(secondSpec) - bytesOfTool(firstSpec), extraBytes);
      assert.equal(
        bytesOfPrefix({ system: "", tools: [firstSpec, secondSpec] }),
        REQUEST_OVERHEAD_BYTES + bytesOfTool(firstSpec) + bytesOfTool(secondSpec),
      );
    }
    assert.equal(bytesOfTool(createToolSpec()), bytesOfTool(firstSpec), "an equal definition has the same size");
  });

  it("returns a new size after a change of the definition, in a copy and in place", () => {
    const tool = createToolSpec();
    const initialBytes = bytesOfTool(tool);
    assert.equal(bytesOfTool({ ...tool, description: "Does.x" }), initialBytes + 1);
    assert.equal(bytesOfTool(tool), initialBytes);
    const mutableTool = tool as { -readonly [key in keyof ToolSpec]: ToolSpec[key] };
    mutableTool.description = "Does.xyz";
    assert.equal(bytesOfTool(tool), initialBytes + 3);
    mutableTool.inputSchema = { type: "object", properties: { abc: { type: "string" } } };
    assert.equal(bytesOfTool(tool), initialBytes + 5);
    mutableTool.name = "aa";
    assert.equal(bytesOfTool(tool), initialBytes + 6);
  });
});
