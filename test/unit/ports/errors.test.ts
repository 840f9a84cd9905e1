import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { UndoneFile } from "../../../src/ports/file-history.js";
import type { Ask } from "../../../src/ports/ask.js";
import * as original from "../../../src/ports/errors.js";

describe("errors of two copies of the package", async () => {
  const copiedModule = (await import(`../../../src/ports/errors.js?copy=${"b"}`)) as typeof original;
  const copiedError: object = new copiedModule.ProviderError("p", "server", "oops");

  it("belong to different classes", () => {
    assert.notEqual(copiedModule.ProviderError, original.ProviderError);
    assert.ok(!(copiedError instanceof original.ProviderError));
    assert.ok(copiedError instanceof copiedModule.ProviderError);
  });

  it("are recognized by hasCode and by instanceof GantryError", () => {
    assert.ok(original.hasCode(copiedError, "provider"));
    assert.ok(copiedError instanceof original.GantryError);
    assert.ok(new original.ToolError("x") instanceof copiedModule.GantryError);
  });

  it("are not confused with objects of other classes by instanceof", () => {
    for (const foreignError of [new Error("x"), { code: "provider" }, {}] as object[])
      assert.ok(!(foreignError instanceof original.GantryError));
    assert.ok(!(new original.ToolError("x") instanceof original.ProviderError));
  });
});

describe("an error in JSON", () => {
  const ask = { id: "a1", state: "answered" } as Ask;
  const files = [{ path: "a.ts", outcome: "conflict" }] as unknown as UndoneFile[];
  const worktreeFiles = [{ path: "/p/a.ts", change: "changed", reason: "x" } as const];
  const cause = new Error("the cause is a secret");
  /** One error of each class, and its fields other than code and message. */
  const errors: [error: original.GantryError, fields: object][] = [
    [new original.AdapterError("x", { cause }), {}],
    [new original.AskClosedError(ask), { ask }],
    [new original.AskNotFoundError("a1"), { askId: "a1" }],
    [new original.AttachmentError("a.png", "x"), { path: "a.png" }],
    [new original.BudgetExceededError(), {}],
    [new original.CommandsDisabledError(), {}],
    [new original.ConfigError("x", { cause }), {}],
    [new original.ForbiddenError("x"), {}],
    [new original.InputError("message", "a text"), { field: "message" }],
    [new original.LeaseLostError("s1"), { rootId: "s1" }],
    [new original.ListenError("x", { cause }), {}],
    [new original.ModelSelectionError("x"), {}],
    [new original.ModelTimeoutError("p: away"), { reason: "p: away" }],
    [new original.NothingToUndoError("x", { cause }), {}],
    [new original.OutputSchemaError("x"), {}],
    [new original.PathError("outside", "x", { cause }), { reason: "outside" }],
    [new original.PointNotFoundError("message"), {}],
    [new original.ProjectFolderError(), {}],
    [
      new original.ProviderError("p", "overloaded", "x", { status: 529, retryAfterMs: 1000, cause }),
      { provider: "p", kind: "overloaded", status: 529, retryAfterMs: 1000, unreachable: false },
    ],
    [new original.RepeatedCallsError("read", 5), { tool: "read", times: 5 }],
    [new original.RunCancelledError({ cause }), {}],
    [new original.RunKeyTakenError("k"), { key: "k" }],
    [new original.RunNotFoundError("r1"), { runId: "r1" }],
    [new original.SeqTakenError(3), { seq: 3 }],
    [new original.SessionBusyError(2000), { retryAfterMs: 2000 }],
    [new original.SessionExistsError("s1"), { sessionId: "s1" }],
    [new original.SessionNotFoundError("s1"), { sessionId: "s1" }],
    [new original.ShuttingDownError(), {}],
    [new original.StoreError("x", { cause, isFull: true }), { isFull: true, isUnavailable: false }],
    [new original.ToolError("x", { cause }), {}],
    [new original.ToolInputError("x", { cause }), {}],
    [new original.TooManyRunsError(500), { retryAfterMs: 500 }],
    [new original.UndoConflictError(files), { files }],
    [new original.WorkLimitError("time", "x", { cause }), { reason: "time" }],
    [new original.WorktreeConflictError(worktreeFiles), { files: worktreeFiles }],
  ];

  it("has a test case for each error class", () => {
    const classes = Object.values<unknown>(original).filter(
      (exported) =>
        typeof exported === "function" &&
        exported !== original.GantryError &&
        exported.prototype instanceof original.GantryError,
    );
    assert.deepEqual(new Set(errors.map(([error]) => error.constructor)), new Set(classes));
  });

  it("has the name of its class, and a cause only if it was given", () => {
    for (const [error, fields] of errors) {
      assert.ok(error instanceof original.GantryError && error.name === error.constructor.name, error.name);
      assert.ok(error.cause === undefined || error.cause === cause, error.name);
      for (const field of Object.keys(fields)) assert.ok(Object.hasOwn(error, field), `${error.name}.${field}`);
    }
    assert.ok(!Object.hasOwn(new original.ToolError("x"), "cause"));
    assert.equal(new original.PathError("io", "x", { cause }).cause, cause);
  });

  it("has default values for omitted arguments", () => {
    assert.equal(new original.SessionBusyError().retryAfterMs, 1000);
    const tooManyRuns = new original.TooManyRunsError(undefined, "too many bytes");
    assert.deepEqual(tooManyRuns.toJSON(), { code: "too_many_runs", message: "too many bytes", retryAfterMs: 1000 });
    assert.equal(new original.TooManyRunsError().message, "too many concurrent runs");
    assert.equal(new original.ModelTimeoutError().reason, "");
    const { isFull, isUnavailable } = new original.StoreError("x", { isUnavailable: true });
    assert.deepEqual({ isFull, isUnavailable }, { isFull: false, isUnavailable: true });
  });

  it("contains code, message and the fields of its class, but neither stack nor cause", () => {
    for (const [error, fields] of errors) {
      const { code, message } = error;
      const parsed: unknown = JSON.parse(JSON.stringify({ type: "error", error }));
      assert.deepEqual(parsed, { type: "error", error: { code, message, ...fields } }, error.name);
    }
  });
});
