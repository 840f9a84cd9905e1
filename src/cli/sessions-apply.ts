import { relative } from "node:path";
import { ConfigError, hasCode } from "../ports/errors.js";
import type { WorktreeFile } from "../ports/worktrees.js";
import type { apply } from "./descriptions/sessions.js";
import type { CommandHandler } from "./command.js";
import { formatCell } from "./table.js";
import { createNotFoundError, withSessions } from "./with-sessions.js";

/**
 * `gantry sessions apply ID`: applies the changes of a session's worktree to its project folder. The exit code is 1 if
 * nothing was applied.
 */
export const run: CommandHandler<typeof apply.flags> = async (context) => {
  const { args, flags, output } = context;
  const [id, extraArgument] = args;
  if (id === undefined || extraArgument !== undefined)
    throw new ConfigError("sessions apply: expected the id of one session");
  const { json = false } = flags;
  const dryRun = flags.dryRun === true;
  const interruptSignal = context.handleInterrupts();
  return withSessions(context, async ({ sessions }) => {
    if (!(await sessions.get(id))) throw createNotFoundError(id);
    const worktree = await sessions.worktree(id);
    if (!worktree) throw new ConfigError(`sessions apply: the session ${id} works in no worktree`);
    const writeFiles = async (files: readonly WorktreeFile[], isDone: boolean): Promise<void> => {
      if (json) return output.write(`${JSON.stringify({ done: isDone, dry_run: dryRun, files }, null, 2)}\n`);
      for (const file of files) await output.write(`${formatFile(file, worktree.projectDir)}\n`);
    };
    try {
      const files = await sessions.applyWorktree(id, { dryRun, signal: interruptSignal });
      await writeFiles(files, !dryRun);
      const countText = files.length === 1 ? "1 path" : `${files.length} paths`;
      output.report(`${dryRun ? "would be " : ""}applied: ${countText}`);
      return 0;
    } catch (error) {
      if (hasCode(error, "worktree_conflict")) await writeFiles(error.files, false);
      else if (!hasCode(error, "session_busy") && !hasCode(error, "project_folder")) throw error;
      output.report(error.message);
      return 1;
    }
  });
};

function formatFile({ path, change, reason }: WorktreeFile, projectDir: string): string {
  const name = formatCell(relative(projectDir, path));
  return `${change.padEnd(7)}  ${name}${reason === "" ? "" : `: ${formatCell(reason)}`}`;
}
