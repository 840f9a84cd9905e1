import type { RunInput } from "../../ports/run.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { Inbox } from "./inbox.js";

/** What the next run does not take over. Its mode and its model are the session's, as somebody may have set them meanwhile. */
const OF_ONE_RUN = [
  "attachments",
  "attach",
  "compact",
  "commands",
  "signal",
  "key",
  "fingerprint",
  "onQueued",
  "mode",
  "provider",
  "model",
] as const satisfies readonly (keyof RunInput)[];

/** What a run was told too late, as its session's next prompt; undefined when nothing was, or the run was cancelled. Rejects with `StoreError`. */
export async function nextInput(
  run: { sessionId: string; inbox: Inbox; recorder: Recorder },
  input: RunInput,
): Promise<RunInput | undefined> {
  const { sessionId, inbox, recorder } = run;
  const late = await inbox.leftOver();
  if (late.length === 0 || recorder.run.state === "cancelled") return undefined;
  const same = { ...input };
  for (const field of OF_ONE_RUN) delete same[field];
  return { ...same, message: late.map(({ text }) => text).join("\n\n"), sessionId, queue: true };
}
