import type { FileHistory } from "../ports/file-history.js";
import type { FolderHistory, FolderHistoryOptions } from "./file-history.js";

/**
 * Keeps what files were before tools changed them, in a folder of this machine, so that `agent.sessions.undo` can bring
 * them back. Nothing is loaded or opened before the first change.
 */
export function folderHistory(options: FolderHistoryOptions | (() => Promise<FolderHistoryOptions>)): FileHistory {
  let loaded: Promise<FolderHistory> | undefined;
  const history = (): Promise<FolderHistory> => (loaded ??= load());
  const load = async (): Promise<FolderHistory> => {
    const { FolderHistory } = await import("./file-history.js");
    return new FolderHistory(typeof options === "function" ? await options() : options);
  };
  return {
    keeper: (place) => ({ keep: async (changes) => (await history()).keeper(place).keep(changes) }),
    restore: async (request) => (await history()).restore(request),
    mark: async (sessionId, mark) => (await history()).mark(sessionId, mark),
    lastUndo: async (sessionId) => (await history()).lastUndo(sessionId),
    forget: async (sessionId) => (await history()).forget(sessionId),
    sweep: async () => (await history()).sweep(),
  };
}
