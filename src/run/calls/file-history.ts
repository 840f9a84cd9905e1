import { relative } from "node:path";
import { printable } from "../../base/printable.js";
import type { ChangePlace, FileKeeper } from "../../ports/file-history.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";

import type { RunContext } from "../context/run-context.js";

/** Helpers of helpers, and so on. */
const DEPTH = 10;

const NO_COPY = "No copy was kept";

/** What was told of in a run: a path whose content is too large, or `""` for that nothing can be kept. */
const told = new WeakMap<RunContext, Set<string>>();

/** What keeps the files that a call changes. */
export interface CallHistory {
  readonly context: Pick<ToolContext, "history">;
  /** What came of the call, with a sentence where no copy was kept, once in a run. */
  tell(output: ToolOutput): ToolOutput;
}

/** What keeps the files that a call changes: behind what was said so far, in the session that people know. */
export function historyOf(callId: string, run: RunContext): CallHistory {
  const { fileHistory } = run.agent;
  if (!fileHistory) return { context: {}, tell: (output) => output };
  const lost = new Set<string>();
  const keep: FileKeeper["keep"] = async (changes) => {
    const large = changes.filter(({ before }) => before.kind === "file" && before.content === undefined);
    for (const { path } of large) lost.add(path);
    try {
      const keeping = await fileHistory.keeper(await placeOf(callId, run)).keep(changes);
      if (!keeping.kept && large.length === 0) lost.add("");
      return keeping;
    } catch (error) {
      lost.add("");
      throw error;
    }
  };
  return { context: { history: { keep } }, tell: (output) => tell(output, lost, run) };
}

function tell(output: ToolOutput, lost: ReadonlySet<string>, run: RunContext): ToolOutput {
  const known = told.get(run) ?? new Set();
  const fresh = [...lost].filter((path) => !known.has(path));
  if (fresh.length === 0 || output.failed === true) return output;
  told.set(run, new Set([...known, ...fresh]));
  // One that deletes says so itself.
  if (output.text.includes(NO_COPY)) return output;
  const names = fresh.map((path) => (path === "" ? "what was there" : shown(path, run)));
  return { ...output, text: `${output.text} ${NO_COPY} of ${names.join(", ")}: undo cannot bring it back.` };
}

function shown(path: string, { projectDir }: RunContext): string {
  const way = relative(projectDir, path);
  return printable(way.startsWith("..") ? path : way);
}

/** What a helper changes is undone with the session that asked for it. */
async function placeOf(callId: string, run: RunContext): Promise<ChangePlace> {
  const { id: runId, conversation, folders, store } = run;
  let { sessionId } = run;
  let seq = conversation.lastSeq;
  let asker = conversation.session.spawnedBy;
  for (let depth = 0; asker && depth < DEPTH; depth++) {
    const head = await store.head(asker.sessionId, { messages: false });
    if (!head) break;
    sessionId = asker.sessionId;
    seq = head.newest.lastSeq;
    asker = head.newest.spawnedBy;
  }
  return { sessionId, runId, callId, seq: seq + 1, folders };
}
