import { relative } from "node:path";
import { printable } from "../../base/printable.js";
import type { ChangeOrigin, FileRecorder } from "../../ports/file-history.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";

import type { RunContext } from "../context/run-context.js";

/** Maximum depth of nested subagents. */
const MAX_SUBAGENT_DEPTH = 10;

const NO_COPY = "No copy was kept";

/** Paths already reported in a run as not restorable: a file that is too large, or `""` if no copy could be stored. */
const reportedPathsByRun = new WeakMap<RunContext, Set<string>>();

/** Stores earlier contents of files that a call changes. */
export interface CallFileHistory {
  readonly context: Pick<ToolContext, "history">;
  /** Adds a note to the output if a copy could not be stored. Each path is noted once per run. */
  addNote(output: ToolOutput): ToolOutput;
}

/**
 * Creates the file history of a call. Changes are recorded after the session's last message. Changes of a subagent are
 * recorded in the session of its root run.
 */
export function callFileHistory(callId: string, run: RunContext): CallFileHistory {
  const { fileHistory } = run.agent;
  if (!fileHistory) return { context: {}, addNote: (output) => output };
  const lost = new Set<string>();
  const keep: FileRecorder["record"] = async (changes) => {
    const large = changes.filter(({ before }) => before.kind === "file" && before.content === undefined);
    for (const { path } of large) lost.add(path);
    try {
      const keeping = await fileHistory.recorder(await originOf(callId, run)).record(changes);
      if (!keeping.isRestorable && large.length === 0) lost.add("");
      return keeping;
    } catch (error) {
      lost.add("");
      throw error;
    }
  };
  return { context: { history: { record: keep } }, addNote: (output) => addLossNote(output, lost, run) };
}

function addLossNote(output: ToolOutput, lost: ReadonlySet<string>, run: RunContext): ToolOutput {
  const reportedPaths = reportedPathsByRun.get(run) ?? new Set();
  const fresh = [...lost].filter((path) => !reportedPaths.has(path));
  if (fresh.length === 0 || output.failed === true) return output;
  reportedPathsByRun.set(run, new Set([...reportedPaths, ...fresh]));
  // A deletion already contains this note.
  if (output.text.includes(NO_COPY)) return output;
  const names = fresh.map((path) => (path === "" ? "what was there" : displayPath(path, run)));
  return { ...output, text: `${output.text} ${NO_COPY} of ${names.join(", ")}: undo cannot bring it back.` };
}

function displayPath(path: string, { projectDir }: RunContext): string {
  const way = relative(projectDir, path);
  return printable(way.startsWith("..") ? path : way);
}

/**
 * The session and position under which changes are recorded. Changes of a subagent are undone with the session that
 * requested it.
 */
async function originOf(callId: string, run: RunContext): Promise<ChangeOrigin> {
  const { id: runId, conversation, folders, store } = run;
  let { sessionId } = run;
  let seq = conversation.lastSeq;
  let asker = conversation.session.spawnedBy;
  for (let depth = 0; asker && depth < MAX_SUBAGENT_DEPTH; depth++) {
    const head = await store.head(asker.sessionId, { messages: false });
    if (!head) break;
    sessionId = asker.sessionId;
    seq = head.newest.lastSeq;
    asker = head.newest.spawnedBy;
  }
  return { sessionId, runId, callId, seq: seq + 1, folders };
}
