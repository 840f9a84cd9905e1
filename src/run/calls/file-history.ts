import { relative } from "node:path";
import { toPrintable } from "../../base/printable.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { ChangeOrigin, FileHistory, FileRecorder } from "../../ports/file-history.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";

const MAX_NESTED_SUBAGENTS = 10;

const NO_COPY_TEXT = "No copy was stored";

/** The members of a run that its file history uses. */
interface HistoryRun {
  readonly info: {
    readonly id: string;
    readonly sessionId: string;
    readonly projectDir: string;
    readonly folders: readonly string[];
  };
  readonly session: { readonly conversation: Conversation; readonly store: SessionDriver };
}

/** Paths already reported in a run as not restorable: a file that is too large, or `""` if no copy could be stored. */
const reportedPathsByRun = new WeakMap<HistoryRun, Set<string>>();

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
export function createCallFileHistory(
  callId: string,
  fileHistory: FileHistory | undefined,
  run: HistoryRun,
): CallFileHistory {
  if (!fileHistory) return { context: {}, addNote: (output) => output };
  const lostPaths = new Set<string>();
  const recordChanges: FileRecorder["record"] = async (changes) => {
    const largeFiles = changes.filter(({ before }) => before.kind === "file" && before.content === undefined);
    for (const { path } of largeFiles) lostPaths.add(path);
    try {
      const recordedChange = await fileHistory.recorder(await findChangeOrigin(callId, run)).record(changes);
      if (!recordedChange.isRestorable && largeFiles.length === 0) lostPaths.add("");
      return recordedChange;
    } catch (error) {
      lostPaths.add("");
      throw error;
    }
  };
  return { context: { history: { record: recordChanges } }, addNote: (output) => addLossNote(output, lostPaths, run) };
}

function addLossNote(output: ToolOutput, lostPaths: ReadonlySet<string>, run: HistoryRun): ToolOutput {
  const reportedPaths = reportedPathsByRun.get(run) ?? new Set();
  const newPaths = [...lostPaths].filter((path) => !reportedPaths.has(path));
  if (newPaths.length === 0 || output.failed === true) return output;
  reportedPathsByRun.set(run, new Set([...reportedPaths, ...newPaths]));
  // The output of a deletion already contains this note.
  if (output.text.includes(NO_COPY_TEXT)) return output;
  const displayNames = newPaths.map((path) =>
    path === "" ? "the previous content" : formatPath(path, run.info.projectDir),
  );
  return { ...output, text: `${output.text} ${NO_COPY_TEXT} of ${displayNames.join(", ")}: undo cannot restore it.` };
}

function formatPath(path: string, projectDir: string): string {
  const relativePath = relative(projectDir, path);
  return toPrintable(relativePath.startsWith("..") ? path : relativePath);
}

/**
 * Returns the session and position under which changes are recorded. Changes of a subagent are undone with the session
 * that spawned the subagent.
 */
async function findChangeOrigin(callId: string, { info, session }: HistoryRun): Promise<ChangeOrigin> {
  const { id: runId, folders } = info;
  const { conversation, store } = session;
  let { sessionId } = info;
  let seq = conversation.lastSeq;
  let spawnedBy = conversation.session.spawnedBy;
  for (let depth = 0; spawnedBy && depth < MAX_NESTED_SUBAGENTS; depth++) {
    const head = await store.head(spawnedBy.sessionId, { messages: false });
    if (!head) break;
    sessionId = spawnedBy.sessionId;
    seq = head.newest.lastSeq;
    spawnedBy = head.newest.spawnedBy;
  }
  return { sessionId, runId, callId, seq: seq + 1, folders };
}
