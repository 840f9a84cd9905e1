import { relative, sep } from "node:path";
import { isInside } from "../files/path-guard.js";
import { ConfigError, hasCode } from "../ports/errors.js";
import type { UndoneFile } from "../ports/file-history.js";
import type { undo } from "./about/sessions.js";
import type { CommandHandler } from "./command.js";
import { cell } from "./table.js";
import { notFound, withSessions } from "./with-sessions.js";

/**
 * `gantry sessions undo ID`: restores files and messages to the state before the last run. The exit code is 1 if some
 * files could not be changed.
 */
export const run: CommandHandler<typeof undo.flags> = async (context) => {
  const { args, flags, output } = context;
  const [id, another] = args;
  if (id === undefined || another !== undefined) throw new ConfigError("sessions undo: expected the id of one session");
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
  return withSessions(context, async ({ sessions }) => {
    const session = await sessions.get(id);
    if (!session) throw notFound(id);
    const options = { dryRun, force };
    const tell = async (files: readonly UndoneFile[], done: boolean, last: string): Promise<void> => {
      if (json)
        return output.write(`${JSON.stringify({ done, dry_run: dryRun, last_message: last, files }, null, 2)}\n`);
      for (const file of files) await output.write(`${lineOf(file, session.projectDir)}\n`);
    };
    try {
      const undone = await (redo
        ? sessions.redo(id, options)
        : sessions.undo(id, { ...options, filesOnly, messagesOnly, ...(to !== undefined && { to }) }));
      await tell(undone.files, !dryRun, undone.to);
      const { length } = undone.files;
      const failedCount = undone.files.filter(({ outcome }) => isFailed(outcome)).length;
      const what = length === 0 ? "no files to change" : pathsOf(length - failedCount);
      const not = failedCount === 0 ? "" : `; ${pathsOf(failedCount)} could not be changed`;
      output.report(`${dryRun ? "would be " : ""}${redo ? "redone" : "undone"}: ${what}${not}`);
      return failedCount === 0 ? 0 : 1;
    } catch (error) {
      if (hasCode(error, "undo_conflict")) {
        await tell(error.files, false, "");
        output.report(`${error.message}${force ? "" : conflictHint(error.files, redo)}`);
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

/** Hint on how to resolve a conflict. */
function conflictHint(files: readonly UndoneFile[], redo: boolean): string {
  if (files.some(({ outcome }) => outcome === "conflict")) return "; --force overwrites";
  return `; --force changes the other files${redo ? "" : ", --messages-only keeps all files"}`;
}

function pathsOf(count: number): string {
  return count === 1 ? "1 path" : `${count} paths`;
}

function isFailed(outcome: UndoneFile["outcome"]): boolean {
  return outcome === "conflict" || outcome === "lost" || outcome === "failed";
}

function lineOf({ path, outcome, reason }: UndoneFile, projectDir: string): string {
  const name = isInside(path, projectDir) ? relative(projectDir, path).split(sep).join("/") : path;
  return `${outcome.padEnd(8)}  ${cell(name)}${reason === "" ? "" : `: ${cell(reason)}`}`;
}
