import type { Bus } from "../base/bus.js";
import type { TaskSet } from "../base/task-set.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";

/** Removes the recorded files of a session when it is deleted. */
export function forgetFilesOnDelete(
  bus: Bus<BusEvents>,
  history: FileHistory | undefined,
  tasks: TaskSet,
  logger: Logger,
): void {
  if (!history) return;
  bus.on("session.deleted", ({ ids }) => {
    for (const id of ids)
      void tasks.add(
        history.forget(id).catch((error: unknown) => {
          logger.warn("file history of a deleted session could not be removed", { session: id, error });
        }),
      );
  });
}
