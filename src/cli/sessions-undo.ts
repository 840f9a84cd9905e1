import { relative, sep } from "node:path";
import { isInside } from "../files/path-guard.js";
import { ConfigError, hasCode } from "../ports/errors.js";
import type { UndoneFile } from "../ports/file-history.js";
import type { undo } from "./descriptions/sessions.js";
import type { CommandHandler } from "./command.js";
import { formatCell } from "./table.js";
import { createNotFoundError, withSessions } from "./with-sessions.js";

/**
 * `gantry sessions undo ID`: restores files and messages to the state before the last run. The exit code is 1 if some
 * files could not be changed.
 */
export const run: CommandHandler<typeof undo.flags> = async (context) => {
  const { args, flags, output } = context;
  const [id, extraArgument] = args;
  if (id === undefined || extraArgument !== undefined)
    throw new ConfigError("sessions undo: expected the id of one session");
  const { to, redo = false, force = false, json = false } = flags;
  const dryRun = flags.dryRun === true;
  const filesOnly = flags.filesOnly === true;
  const messagesOnly = flags.messagesOnly === true;
  if (redo && (to !== undefined || filesOnly || messagesOnly))
    throw new ConfigError(
      "sessions undo: --redo reverses the whole last undo; it cannot be combined with --to, --files-only or --messages-only",
    );
  if (filesOnly && messagesOnly)
    throw new ConfigError("sessions undo: expected one of --files-only and --messages-only");
  return withSessions(context, async ({ sessions, canRewind }) => {
    if (!canRewind) throw new ConfigError("sessions undo: disabled by session.rewind in the config");
    const session = await sessions.get(id);
    if (!session) throw createNotFoundError(id);
    const options = { dryRun, force };
    const writeFiles = async (files: readonly UndoneFile[], isDone: boolean, lastMessageId: string): Promise<void> => {
      if (json)
        return output.write(
          `${JSON.stringify({ done: isDone, dry_run: dryRun, last_message: lastMessageId, files }, null, 2)}\n`,
        );
      for (const file of files) await output.write(`${formatFile(file, session.projectDir)}\n`);
    };
    try {
      const undoResult = await (redo
        ? sessions.redo(id, options)
        : sessions.undo(id, { ...options, filesOnly, messagesOnly, ...(to !== undefined && { to }) }));
      await writeFiles(undoResult.files, !dryRun, undoResult.to);
      const { length } = undoResult.files;
      const failedCount = undoResult.files.filter(({ outcome }) => isFailed(outcome)).length;
      const changeText = length === 0 ? "no files to change" : formatPathCount(length - failedCount);
      const failureText = failedCount === 0 ? "" : `; ${formatPathCount(failedCount)} could not be changed`;
      output.report(`${dryRun ? "would be " : ""}${redo ? "redone" : "undone"}: ${changeText}${failureText}`);
      return failedCount === 0 ? 0 : 1;
    } catch (error) {
      if (hasCode(error, "undo_conflict")) {
        await writeFiles(error.files, false, "");
        output.report(`${error.message}${force ? "" : describeConflictRemedy(error.files, redo)}`);
        return 1;
      }
      if (hasCode(error, "nothing_to_undo") || hasCode(error, "point_not_found") || hasCode(error, "session_busy")) {
        output.report(error.message);
        return 1;
      }
      throw error;
    }
  });
};

/** Returns the end of the error message, which names the flag that resolves the conflict. */
function describeConflictRemedy(files: readonly UndoneFile[], redo: boolean): string {
  if (files.some(({ outcome }) => outcome === "conflict")) return "; --force overwrites";
  return `; --force changes the other files${redo ? "" : ", --messages-only keeps all files"}`;
}

function formatPathCount(count: number): string {
  return count === 1 ? "1 path" : `${count} paths`;
}

function isFailed(outcome: UndoneFile["outcome"]): boolean {
  return outcome === "conflict" || outcome === "lost" || outcome === "failed";
}

function formatFile({ path, outcome, reason }: UndoneFile, projectDir: string): string {
  const name = isInside(path, projectDir) ? relative(projectDir, path).split(sep).join("/") : path;
  return `${outcome.padEnd(9)}  ${formatCell(name)}${reason === "" ? "" : `: ${formatCell(reason)}`}`;
}
