import type { RunInput } from "../../ports/run.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { Inbox } from "./inbox.js";

/**
 * Fields that the next run does not inherit. Mode and model come from the session, because a client may have changed
 * them since.
 */
const FIELDS_OF_ONE_RUN = [
  "attachments",
  "attach",
  "compact",
  "commands",
  "signal",
  "idempotencyKey",
  "fingerprint",
  "onQueued",
  "mode",
  "provider",
  "model",
] as const satisfies readonly (keyof RunInput)[];

/**
 * Returns the input for another run, from steering instructions that arrived too late. Returns undefined without such
 * instructions, or if the run was cancelled. Rejects with `StoreError`.
 */
export async function createLateInstructionsInput(
  sessionId: string,
  inbox: Inbox,
  recorder: Recorder,
  input: RunInput,
): Promise<RunInput | undefined> {
  const instructions = await inbox.takeRemainingSteering();
  if (instructions.length === 0 || recorder.run.state === "cancelled") return undefined;
  const nextInput = { ...input };
  for (const field of FIELDS_OF_ONE_RUN) delete nextInput[field];
  return { ...nextInput, message: instructions.map(({ text }) => text).join("\n\n"), sessionId, queue: true };
}
