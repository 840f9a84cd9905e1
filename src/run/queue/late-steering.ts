import { newId } from "../../base/ids.js";
import type { Instruction, RunInput, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { canRestart, isOpen, withEffectiveState } from "../../sessions/stored-run.js";
import { withdrawInstructions } from "./inbox.js";

/**
 * Fields that the next run does not inherit. Mode and model come from the session, because a client may have changed
 * them since.
 */
const FIELDS_OF_ONE_RUN = [
  "attachments",
  "attach",
  "compact",
  "rewind",
  "retry",
  "commands",
  "signal",
  "idempotencyKey",
  "fingerprint",
  "onQueued",
  "mode",
  "provider",
  "model",
  "worktree",
] as const satisfies readonly (keyof RunInput)[];

/**
 * Returns the input for another run, from the steering instructions that an ended run did not read. They stay stored
 * until that run stores its prompt. Returns undefined without such instructions, or if the end of the run drops them.
 * Other instructions of the run are removed. Rejects with `StoreError`.
 */
export async function createLateRunInput(
  instructions: readonly Instruction[],
  store: SessionDriver,
  run: RunRecord,
  input: RunInput,
): Promise<RunInput | undefined> {
  // A request with the key of a run that a shutdown ended continues this run, which then reads its instructions.
  const isDropped = dropsSteering(run) && !canRestart(run);
  const steering = isDropped ? [] : instructions.filter(({ kind }) => kind === "steer");
  await withdrawInstructions(
    store,
    instructions.filter((instruction) => !steering.includes(instruction)),
  );
  if (steering.length === 0 || dropsSteering(run)) return undefined;
  const nextInput = { ...input };
  for (const field of FIELDS_OF_ONE_RUN) delete nextInput[field];
  // The session works in its worktree, not in the folder from which the worktree was made.
  if (input.worktree) delete nextInput.projectDir;
  return { ...nextInput, message: joinTexts(steering), sessionId: run.sessionId, queue: true };
}

/** Returns the message of a run that starts with steering instructions. */
export function joinTexts(steering: readonly Instruction[]): string {
  return steering.map(({ text }) => text).join("\n\n");
}

/**
 * Takes the steering instructions that ended runs of a chain did not read, in order of arrival. They stay stored, with
 * new ids, until the caller stores their texts as messages and consumes them in the same change, so that neither a crash
 * nor a full disk loses a text. Their senders can no longer withdraw them. Instructions that no run will read are
 * removed.
 *
 * `instructions`: those of the chain. The caller must hold the chain's lease. Rejects with `StoreError`.
 */
export async function takeLateSteering(
  store: SessionDriver,
  instructions: readonly Instruction[],
  ownRunId: string,
): Promise<Instruction[]> {
  const lateSteering: Instruction[] = [];
  const unusedInstructions: Instruction[] = [];
  const runs = new Map<string, RunRecord | undefined>();
  for (const instruction of instructions) {
    const { id, runId, sessionId, kind } = instruction;
    if (runId === ownRunId) continue;
    if (!runs.has(runId)) {
      const [storedRun] = await store.runs({ id: runId, limit: 1 });
      runs.set(runId, storedRun && withEffectiveState(storedRun, store));
    }
    const run = runs.get(runId);
    // A queued run reads its instructions when it starts.
    if (!run || isOpen(run)) continue;
    if (kind !== "steer" || dropsSteering(run)) {
      unusedInstructions.push(instruction);
      continue;
    }
    const takenInstruction = { ...instruction, id: newId() };
    const change = { fence: null, sync: false, consumedInstructions: [id], instruct: takenInstruction };
    const { consumedInstructions } = await store.write(sessionId, change);
    // The sender may have withdrawn the instruction since it was read.
    (consumedInstructions.length > 0 ? lateSteering : unusedInstructions).push(takenInstruction);
  }
  await withdrawInstructions(store, unusedInstructions);
  return lateSteering;
}

/** Removes the unread steering instructions of a run. Rejects with `StoreError`. */
export async function dropSteering(store: SessionDriver, { id, sessionId }: RunRecord): Promise<void> {
  const instructions = await store.instructions(sessionId);
  await withdrawInstructions(
    store,
    instructions.filter(({ runId, kind }) => runId === id && kind === "steer"),
  );
}

/** Whether a run that has ended in this way drops its unread steering instructions, so that clients may send them again. */
function dropsSteering({ state }: RunRecord): boolean {
  return state === "cancelled" || state === "interrupted";
}
