import { ConfigError } from "../ports/errors.js";
import type { CommandHandler } from "./command.js";
import { archive } from "./descriptions/sessions.js";
import { createNotFoundError, withSessions } from "./with-sessions.js";

/** `gantry sessions archive ID ...` and `unarchive ID ...`. Changes nothing if one of the sessions is unknown. */
export const run: CommandHandler<typeof archive.flags> = async (context) => {
  const { args, name, output } = context;
  if (args.length === 0) throw new ConfigError(`${name}: expected the ids of sessions`);
  return withSessions(context, async ({ sessions }) => {
    for (const id of args) if (!(await sessions.get(id))) throw createNotFoundError(id);
    const archived = name === archive.name;
    for (const id of args) await sessions.update(id, { archived });
    output.report(`${args.length} session${args.length === 1 ? "" : "s"} ${archived ? "" : "un"}archived`);
    return 0;
  });
};
