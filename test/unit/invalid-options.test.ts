import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool } from "gantry";
import { ScriptedProvider } from "gantry/testing";

// The casts pass values that TypeScript rejects, as JavaScript programs can.
describe("an invalid option", () => {
  const providers = [new ScriptedProvider()];

  it("is named in the error when projectDir is relative", () => {
    assert.throws(() => new Agent({ providers, projectDir: "project" }), /projectDir: .*absolute/);
  });

  it("is named in the error when a compaction strategy has no compact method", () => {
    assert.throws(
      () => new Agent({ providers, compaction: { strategy: {} as never } }),
      /compaction\.strategy.*compact/,
    );
  });

  it("is named in the error when a tool has no run method", () => {
    const tool = { name: "t", description: "d", schema: { type: "object", properties: {} } };
    assert.throws(() => defineTool(tool as never), /\brun\b/);
  });
});
