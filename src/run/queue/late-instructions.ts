import type { RunInput } from "../../ports/run.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { Inbox } from "./inbox.js";

/**
 * Fields that the next run does not inherit. Mode and model come from the session, because they may have been changed
 * since.
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
 * The input for another run, from steering instructions that arrived too late. Undefined if there are none, or if the
 * run was cancelled. Rejects with `StoreError`.
 */
export async function inputFromLateInstructions(
  run: { sessionId: string; inbox: Inbox; recorder: Recorder },
  input: RunInput,
): Promise<RunInput | undefined> {
  const { sessionId, inbox, recorder } = run;
  const late = await inbox.takeRemaining();
  if (late.length === 0 || recorder.run.state === "cancelled") return undefined;
  const same = { ...input };
  for (const field of FIELDS_OF_ONE_RUN) delete same[field];
  return { ...same, message: late.map(({ text }) => text).join("\n\n"), sessionId, queue: true };
}
