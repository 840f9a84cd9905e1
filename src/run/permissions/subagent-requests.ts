import type { Ask, AskReply } from "../../ports/ask.js";
import { requestAnswer, type AskDraft, type UnansweredReason } from "./request-answer.js";
import type { PermissionRun, RunPermissions } from "./permission-run.js";

/** Sends an ask to the client that started the run. */
type AskClient = (draft: Pick<AskDraft, "callId" | "title">, signal: AbortSignal) => Promise<AskReply>;

/**
 * Like `requestAnswer`, but asks of a subagent go to the clients of its parent run. These asks are stored in the
 * parent's session, for the tool call that spawned the subagent; the title contains the subagent's title. The subagent
 * is marked as waiting meanwhile. `createAskClient` creates the function that asks a client.
 */
export async function requestAnswerFromParent(
  run: PermissionRun,
  draft: AskDraft,
  createAskClient: (askClient: NonNullable<RunPermissions["ask"]>) => AskClient,
  signal = run.signal,
): Promise<Ask | UnansweredReason> {
  const { parentCall } = run.info;
  const { ask, pendingAskIds } = run.permissions;
  if (!parentCall) {
    const askClient = ask && createAskClient(ask);
    return requestAnswer(run, draft, askClient && ((clientSignal) => askClient(draft, clientSignal)), signal);
  }
  const { parentRun, callId, title } = parentCall;
  const storeState = async (state: "waiting" | "running"): Promise<void> => {
    await run.session.recorder.write({ sync: false, run: { state } }).catch((error: unknown) => {
      run.channels.logger.debug("waiting state of a subagent was not stored", { error });
    });
  };
  // The ask is stored in the parent's session, so it is tracked here by the call id.
  pendingAskIds.add(draft.callId);
  try {
    run.budget.clock?.pause();
    await storeState("waiting");
    return await requestAnswerFromParent(
      parentRun,
      { ...draft, callId, title: `${title}: ${draft.title}` },
      createAskClient,
      signal,
    );
  } finally {
    pendingAskIds.delete(draft.callId);
    if (pendingAskIds.size === 0) {
      if (!run.signal.aborted) run.budget.clock?.start();
      await storeState("running");
    }
  }
}
