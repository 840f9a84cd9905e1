import type { ChangePlace, FileKeeper } from "../ports/file-history.js";
import type { ToolContext } from "../ports/tool.js";
import type { RunContext } from "./run-context.js";

/** Helpers of helpers, and so on. */
const DEPTH = 10;

/** What keeps the files that a call changes: behind what was said so far, in the session that people know. */
export function historyOf(callId: string, run: RunContext): Pick<ToolContext, "history"> {
  const { fileHistory } = run.agent;
  if (!fileHistory) return {};
  const keep: FileKeeper["keep"] = async (changes) => fileHistory.keeper(await placeOf(callId, run)).keep(changes);
  return { history: { keep } };
}

/** What a helper changes is undone with the session that asked for it. */
async function placeOf(callId: string, run: RunContext): Promise<ChangePlace> {
  const { id: runId, conversation, folders, store } = run;
  let { sessionId } = run;
  let seq = conversation.lastSeq;
  let asker = conversation.session.spawnedBy;
  for (let depth = 0; asker && depth < DEPTH; depth++) {
    const newest = await store.newest(asker.sessionId);
    if (!newest) break;
    sessionId = asker.sessionId;
    seq = newest.lastSeq;
    asker = newest.spawnedBy;
  }
  return { sessionId, runId, callId, seq: seq + 1, folders };
}
