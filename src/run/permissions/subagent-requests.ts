import type { Ask, AskReply } from "../../ports/ask.js";
import { askPeople, type Asked, type NoAnswer } from "./requests.js";
import type { PermissionRun } from "./permission-run.js";

/** Asks the person at a run's own door. */
type Here = (asked: Pick<Asked, "callId" | "title">, signal: AbortSignal) => Promise<AskReply>;

/**
 * As `askPeople`. What a helper wants its asker's people are asked, in the asker's session and about the call that asked
 * for it; the title names the helper. It waits meanwhile, and is told to. `at`: how the person at a door is asked.
 */
export async function askFront(
  run: PermissionRun,
  asked: Asked,
  at: (here: NonNullable<PermissionRun["ask"]>) => Here,
  signal = run.signal,
): Promise<Ask | NoAnswer> {
  const { spawned, recorder, clock, asking } = run;
  if (!spawned) {
    const here = run.ask && at(run.ask);
    return askPeople(run, asked, here && ((ended) => here(asked, ended)), signal);
  }
  const { asker, callId, title } = spawned;
  const waits = async (state: "waiting" | "running"): Promise<void> => {
    await recorder.write({ sync: false, run: { state } }).catch((error: unknown) => {
      run.logger.debug("that a helper waits for people was not stored", { error });
    });
  };
  // Its asks are none of its own session: what is open here is by the call.
  asking.add(asked.callId);
  try {
    clock?.stand();
    await waits("waiting");
    return await askFront(asker, { ...asked, callId, title: `${title}: ${asked.title}` }, at, signal);
  } finally {
    asking.delete(asked.callId);
    if (asking.size === 0) {
      if (!run.signal.aborted) clock?.go();
      await waits("running");
    }
  }
}
