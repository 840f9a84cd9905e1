import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AsyncScope } from "../../../src/base/async-scope.js";

describe("an async scope", () => {
  it("releases its resources once, the newest first, and waits for each", async () => {
    const scope = new AsyncScope();
    const steps: string[] = [];
    const resource = scope.use({ name: "first" }, ({ name }) => steps.push(name));
    assert.deepEqual(resource, { name: "first" });
    scope.defer(async () => {
      steps.push("second begins");
      await new Promise((resolve) => setImmediate(resolve));
      steps.push("second ends");
    });
    assert.deepEqual(steps, []);
    await scope.close();
    await scope.close();
    assert.deepEqual(steps, ["second begins", "second ends", "first"]);
  });

  it("does not release a resource again that was released early", async () => {
    const scope = new AsyncScope();
    const steps: string[] = [];
    const release = scope.defer(() => steps.push("early"));
    scope.defer(() => steps.push("late"));
    await Promise.all([release(), release()]);
    await scope.close();
    await release();
    assert.deepEqual(steps, ["early", "late"]);
  });

  it("releases all resources if one release fails, and rejects with the first error", async () => {
    const scope = new AsyncScope();
    const steps: string[] = [];
    scope.defer(() => steps.push("first"));
    scope.defer(() => Promise.reject(new Error("second failure")));
    scope.defer(() => {
      throw new Error("first failure");
    });
    await assert.rejects(scope.close(), { message: "first failure" });
    assert.deepEqual(steps, ["first"]);
  });
});
