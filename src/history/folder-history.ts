import type { FileHistory } from "../ports/file-history.js";
import type { FolderHistory, FolderHistoryOptions } from "./file-history.js";

/**
 * Creates a file history in a local folder, which `agent.sessions.undo` uses to restore files. The implementation is
 * loaded, and the options function called, at the first use.
 */
export function folderHistory(options: FolderHistoryOptions | (() => Promise<FolderHistoryOptions>)): FileHistory {
  let loaded: Promise<FolderHistory> | undefined;
  const history = (): Promise<FolderHistory> => (loaded ??= load());
  const load = async (): Promise<FolderHistory> => {
    const { FolderHistory } = await import("./file-history.js");
    return new FolderHistory(typeof options === "function" ? await options() : options);
  };
  return {
    recorder: (place) => ({ record: async (changes) => (await history()).recorder(place).record(changes) }),
    restore: async (request) => (await history()).restore(request),
    mark: async (sessionId, mark) => (await history()).mark(sessionId, mark),
    lastUndo: async (sessionId) => (await history()).lastUndo(sessionId),
    forget: async (sessionId) => (await history()).forget(sessionId),
    sweep: async () => (await history()).sweep(),
  };
}
