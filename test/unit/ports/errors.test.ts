import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as ours from "../../../src/ports/errors.js";

describe("errors of two copies of the package", async () => {
  const copy = (await import(`../../../src/ports/errors.js?copy=${"b"}`)) as typeof ours;
  const theirs: object = new copy.ProviderError("p", "server", "oops");

  it("are two classes", () => {
    assert.notEqual(copy.ProviderError, ours.ProviderError);
    assert.ok(!(theirs instanceof ours.ProviderError));
    assert.ok(theirs instanceof copy.ProviderError);
  });

  it("are known by their code, and as gantry's", () => {
    assert.ok(ours.hasCode(theirs, "provider"));
    assert.ok(theirs instanceof ours.GantryError);
    assert.ok(new ours.ToolError("x") instanceof copy.GantryError);
  });

  it("and nothing else is", () => {
    for (const other of [new Error("x"), { code: "provider" }, {}] as object[])
      assert.ok(!(other instanceof ours.GantryError));
    assert.ok(!(new ours.ToolError("x") instanceof ours.ProviderError));
  });
});
