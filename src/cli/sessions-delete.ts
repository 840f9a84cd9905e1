import { ConfigError } from "../ports/errors.js";
import type { Session } from "../ports/session.js";
import type { remove } from "./about/sessions.js";
import type { Command, CommandContext } from "./command.js";
import { ENDED_BY } from "./exit-reason.js";
import { linesOf } from "./lines.js";
import { cell } from "./table.js";
import { notFound, withSessions } from "./with-sessions.js";

type Called = CommandContext<typeof remove.flags>;

/** `gantry sessions delete ID ...`: asks for confirmation, unless `--yes` is set. */
export const run: Command<typeof remove.flags> = async (context) => {
  const { args, flags, output, input } = context;
  if (args.length === 0) throw new ConfigError("sessions delete: expected the ids of sessions");
  const isAsked = flags.yes !== true;
  if (isAsked && !(input.isTerminal && output.columns !== undefined))
    throw new ConfigError("sessions delete: nobody can be asked here; --yes deletes without");
  return withSessions(context, async ({ sessions }) => {
    const found = new Map<string, Session>();
    // Check all ids before deleting any session.
    for (const id of args) {
      const session = await sessions.get(id);
      if (!session) throw notFound(id);
      const { root } = session.chain;
      found.set(root, (await sessions.get(root)) ?? session);
    }
    for (const { id, title } of found.values()) output.tell(`${id}  ${cell(title)}`);
    if (isAsked) {
      const interrupted = context.interrupted();
      if (!(await saysYes(found.size, context, interrupted))) {
        output.tell("nothing was deleted");
        return interrupted.aborted ? (ENDED_BY[String(interrupted.reason)] ?? 1) : 1;
      }
    }
    for (const id of found.keys()) await sessions.delete(id);
    output.tell(`${found.size} session${found.size === 1 ? "" : "s"} deleted`);
    return 0;
  });
};

async function saysYes(count: number, { output, input }: Called, interrupted: AbortSignal): Promise<boolean> {
  output.draw(`Delete ${count === 1 ? "this session" : `these ${count} sessions`} for good? [y/N] `);
  try {
    const next = await linesOf(input, () => undefined, interrupted).next();
    return !next.done && /^y(es)?$/i.test(next.value.trim());
  } catch (error) {
    if (!interrupted.aborted) throw error;
    output.draw("\n");
    return false;
  }
}
