import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { UndoneFile } from "../../../src/ports/file-history.js";
import type { Ask } from "../../../src/ports/ask.js";
import * as ours from "../../../src/ports/errors.js";

describe("errors of two copies of the package", async () => {
  const copy = (await import(`../../../src/ports/errors.js?copy=${"b"}`)) as typeof ours;
  const copiedError: object = new copy.ProviderError("p", "server", "oops");

  it("are two classes", () => {
    assert.notEqual(copy.ProviderError, ours.ProviderError);
    assert.ok(!(copiedError instanceof ours.ProviderError));
    assert.ok(copiedError instanceof copy.ProviderError);
  });

  it("are known by their code, and as gantry's", () => {
    assert.ok(ours.hasCode(copiedError, "provider"));
    assert.ok(copiedError instanceof ours.GantryError);
    assert.ok(new ours.ToolError("x") instanceof copy.GantryError);
  });

  it("and nothing else is", () => {
    for (const foreignError of [new Error("x"), { code: "provider" }, {}] as object[])
      assert.ok(!(foreignError instanceof ours.GantryError));
    assert.ok(!(new ours.ToolError("x") instanceof ours.ProviderError));
  });
});

describe("an error in JSON", () => {
  const ask = { id: "a1", state: "answered" } as Ask;
  const files = [{ path: "a.ts", outcome: "conflict" }] as unknown as UndoneFile[];
  const cause = new Error("the cause is a secret");
  /** One error of each class, and its fields other than code and message. */
  const errors: [error: ours.GantryError, fields: object][] = [
    [new ours.AdapterError("x", { cause }), {}],
    [new ours.AskClosedError(ask), { ask }],
    [new ours.AskNotFoundError("a1"), { askId: "a1" }],
    [new ours.AttachmentError("a.png", "x"), { path: "a.png" }],
    [new ours.BudgetExceededError(), {}],
    [new ours.ConfigError("x", { cause }), {}],
    [new ours.InputError("message", "a text"), { field: "message" }],
    [new ours.LeaseLostError("s1"), { rootId: "s1" }],
    [new ours.ListenError("x", { cause }), {}],
    [new ours.ModelSelectionError("x"), {}],
    [new ours.ModelTimeoutError("p: away"), { why: "p: away" }],
    [new ours.NothingToUndoError("x", { cause }), {}],
    [new ours.OutputSchemaError("x"), {}],
    [new ours.PathError("outside", "x", { cause }), { reason: "outside" }],
    [new ours.PointNotFoundError("message"), {}],
    [new ours.ProjectFolderError(), {}],
    [
      new ours.ProviderError("p", "overloaded", "x", { status: 529, retryAfterMs: 1000, cause }),
      { provider: "p", kind: "overloaded", status: 529, retryAfterMs: 1000, unreachable: false },
    ],
    [new ours.RepeatedCallsError("read", 5), { tool: "read", times: 5 }],
    [new ours.RunCancelledError({ cause }), {}],
    [new ours.RunKeyTakenError("k"), { key: "k" }],
    [new ours.RunNotFoundError("r1"), { runId: "r1" }],
    [new ours.SeqTakenError(3), { seq: 3 }],
    [new ours.SessionBusyError(2000), { retryAfterMs: 2000 }],
    [new ours.SessionExistsError("s1"), { sessionId: "s1" }],
    [new ours.SessionNotFoundError("s1"), { sessionId: "s1" }],
    [new ours.ShuttingDownError(), {}],
    [new ours.StoreError("x", { cause, full: true }), { full: true, unavailable: false }],
    [new ours.ToolError("x", { cause }), {}],
    [new ours.ToolInputError("x", { cause }), {}],
    [new ours.TooManyRunsError(500), { retryAfterMs: 500 }],
    [new ours.UndoConflictError(files), { files }],
    [new ours.WorkLimitError("time", "x", { cause }), { reason: "time" }],
  ];

  it("is tested for every class", () => {
    const classes = Object.values<unknown>(ours).filter(
      (exported) =>
        typeof exported === "function" &&
        exported !== ours.GantryError &&
        exported.prototype instanceof ours.GantryError,
    );
    assert.deepEqual(new Set(errors.map(([error]) => error.constructor)), new Set(classes));
  });

  it("keeps code, message and the fields of its class, and neither stack nor cause", () => {
    for (const [error, fields] of errors) {
      const { code, message } = error;
      const read: unknown = JSON.parse(JSON.stringify({ type: "error", error }));
      assert.deepEqual(read, { type: "error", error: { code, message, ...fields } }, error.name);
    }
  });
});
