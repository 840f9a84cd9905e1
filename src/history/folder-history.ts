import type { FileHistory } from "../ports/file-history.js";
import type { FolderHistory, FolderHistoryOptions } from "./file-history.js";

/**
 * Creates a file history in a local folder, which `agent.sessions.undo` uses to restore files. The implementation is
 * loaded, and the options function called, at the first use.
 */
export function folderHistory(options: FolderHistoryOptions | (() => Promise<FolderHistoryOptions>)): FileHistory {
  let historyPromise: Promise<FolderHistory> | undefined;
  const getHistory = (): Promise<FolderHistory> => (historyPromise ??= loadHistory());
  const loadHistory = async (): Promise<FolderHistory> => {
    const { FolderHistory } = await import("./file-history.js");
    return new FolderHistory(typeof options === "function" ? await options() : options);
  };
  return {
    recorder: (origin) => ({ record: async (changes) => (await getHistory()).recorder(origin).record(changes) }),
    restore: async (request) => (await getHistory()).restore(request),
    mark: async (sessionId, mark) => (await getHistory()).mark(sessionId, mark),
    lastUndo: async (sessionId) => (await getHistory()).lastUndo(sessionId),
    changes: async (query) => (await getHistory()).changes(query),
    forget: async (sessionId) => (await getHistory()).forget(sessionId),
    sweep: async () => (await getHistory()).sweep(),
  };
}
