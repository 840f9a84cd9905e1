import { ConfigError } from "../ports/errors.js";
import type { Session } from "../ports/session.js";
import type { remove } from "./descriptions/sessions.js";
import type { CommandHandler, CommandContext } from "./command.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { readLines } from "./lines.js";
import { formatCell } from "./table.js";
import { createNotFoundError, withSessions } from "./with-sessions.js";

type DeleteContext = CommandContext<typeof remove.flags>;

/** `gantry sessions delete ID ...`: asks for confirmation, unless `--yes` is set. */
export const run: CommandHandler<typeof remove.flags> = async (context) => {
  const { args, flags, output, input } = context;
  if (args.length === 0) throw new ConfigError("sessions delete: expected the ids of sessions");
  const needsConfirmation = flags.yes !== true;
  if (needsConfirmation && !(input.isTerminal && output.columns !== undefined))
    throw new ConfigError("sessions delete: no terminal for the confirmation; use --yes to delete without it");
  return withSessions(context, async ({ sessions }) => {
    const sessionsByRootId = new Map<string, Session>();
    // Check all ids before deleting any session.
    for (const id of args) {
      const session = await sessions.get(id);
      if (!session) throw createNotFoundError(id);
      const { root } = session.chain;
      sessionsByRootId.set(root, (await sessions.get(root)) ?? session);
    }
    for (const { id, title } of sessionsByRootId.values()) output.report(`${id}  ${formatCell(title)}`);
    if (needsConfirmation) {
      const interruptSignal = context.handleInterrupts();
      if (!(await isConfirmed(sessionsByRootId.size, context, interruptSignal))) {
        output.report("nothing was deleted");
        return interruptSignal.aborted ? (SIGNAL_EXIT_CODES[String(interruptSignal.reason)] ?? 1) : 1;
      }
    }
    for (const id of sessionsByRootId.keys()) await sessions.delete(id);
    output.report(`${sessionsByRootId.size} session${sessionsByRootId.size === 1 ? "" : "s"} deleted`);
    return 0;
  });
};

async function isConfirmed(
  count: number,
  { output, input }: DeleteContext,
  interruptSignal: AbortSignal,
): Promise<boolean> {
  output.draw(`Delete ${count === 1 ? "this session" : `these ${count} sessions`} for good? [y/N] `);
  try {
    const next = await readLines(input, () => undefined, interruptSignal).next();
    return !next.done && /^y(es)?$/i.test(next.value.trim());
  } catch (error) {
    if (!interruptSignal.aborted) throw error;
    output.draw("\n");
    return false;
  }
}
