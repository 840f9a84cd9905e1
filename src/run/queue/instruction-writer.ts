import { newId, now } from "../../base/ids.js";
import { TooManyRunsError } from "../../ports/errors.js";
import type { Instruction, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** Maximum stored instructions of one kind for one run. Its process removes them when it has read them. */
const MAX_PENDING_INSTRUCTIONS = 100;

/** Stores instructions for runs of any process. Writes for one run are serial, so that all of them obey the limit. */
export class InstructionWriter {
  readonly #lastWriteByRunId = new Map<string, Promise<void>>();

  /**
   * Stores an instruction. A run has at most one cancel: a second one resolves with the first. Rejects with `StoreError`,
   * or with `TooManyRunsError` at the limit.
   */
  store(store: SessionDriver, run: RunRecord, kind: Instruction["kind"], text: string): Promise<Instruction> {
    const lastWrite = this.#lastWriteByRunId.get(run.id) ?? Promise.resolve();
    const write = lastWrite.then(() => storeWithinLimit(store, run, kind, text));
    const settledWrite: Promise<void> = write.then(
      () => undefined,
      () => undefined,
    );
    this.#lastWriteByRunId.set(run.id, settledWrite);
    void settledWrite.then(() => {
      if (this.#lastWriteByRunId.get(run.id) === settledWrite) this.#lastWriteByRunId.delete(run.id);
    });
    return write;
  }
}

async function storeWithinLimit(
  store: SessionDriver,
  { id: runId, sessionId }: RunRecord,
  kind: Instruction["kind"],
  text: string,
): Promise<Instruction> {
  const instructions = await store.instructions(sessionId);
  const pendingInstructions = instructions.filter((stored) => stored.runId === runId && stored.kind === kind);
  const [pendingInstruction] = pendingInstructions;
  if (kind === "cancel" && pendingInstruction) return pendingInstruction;
  if (pendingInstructions.length >= MAX_PENDING_INSTRUCTIONS)
    throw new TooManyRunsError(undefined, "too many messages wait for this run");
  const instruction: Instruction = { id: newId(), sessionId, runId, kind, text, createdAt: now(store) };
  await store.write(sessionId, { fence: null, sync: true, instruct: instruction });
  notifierOf(store).publish(sessionId);
  return instruction;
}
