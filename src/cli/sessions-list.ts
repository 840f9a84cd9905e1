import { resolve } from "node:path";
import { ConfigError } from "../ports/errors.js";
import type { Session } from "../ports/session.js";
import type { list } from "./descriptions/sessions.js";
import type { CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";
import { formatCost, formatCount, formatTime, formatTable } from "./table.js";
import { withSessions } from "./with-sessions.js";

/** Number of sessions per read. */
const PAGE_SIZE = 200;
const DEFAULT_LIMIT = 50;

/** `gantry sessions list`: prints a table, or JSON with `--json`. */
export const run: CommandHandler<typeof list.flags> = async (context) => {
  const { args, flags, output } = context;
  refuseArguments(args);
  const { limit = DEFAULT_LIMIT, search, folder, archived, json } = flags;
  if (!Number.isSafeInteger(limit)) throw new ConfigError(`--limit: expected a whole number, got ${limit}`);
  return withSessions(context, async ({ sessions }) => {
    const query = {
      archived: archived ? ("only" as const) : ("exclude" as const),
      ...(search === undefined ? {} : { search }),
      ...(folder === undefined ? {} : { projectDir: resolve(folder) }),
    };
    const maxSessions = limit === 0 ? Infinity : limit;
    const results: Session[] = [];
    let total = 0;
    for (let lastSession: Session | undefined; ;) {
      const page = await sessions.list({
        ...query,
        limit: Math.min(PAGE_SIZE, maxSessions - results.length),
        ...(lastSession && { before: lastSession }),
      });
      if (!lastSession) ({ total } = page);
      results.push(...page.sessions);
      lastSession = page.sessions.at(-1);
      if (!lastSession || results.length >= maxSessions) break;
    }
    if (json) {
      await output.write(`${JSON.stringify(results.map(withoutGrants), null, 2)}\n`);
      return 0;
    }
    if (results.length > 0)
      await output.write(formatSessions(results, output.isStdoutTerminal ? output.columns : undefined));
    if (total > results.length)
      output.report(`${formatCount(results.length)} of ${formatCount(total)} sessions; --limit 0 lists all`);
    else if (results.length === 0) output.report("no sessions");
    return 0;
  });
};

/** Removes the permission grants, which clients do not see. */
export function withoutGrants({ permissionGrants: _, ...session }: Session): Omit<Session, "permissionGrants"> {
  return session;
}

function formatSessions(sessions: readonly Session[], columns: number | undefined): string {
  const rows = sessions.map(({ id, updatedAt, usage, provider, model, title }) => [
    id,
    formatTime(updatedAt),
    formatCount(usage.totalTokens),
    formatCost(usage, provider),
    model,
    title,
  ]);
  return formatTable(["ID", "LAST USED", "TOKENS", "COST", "MODEL", "TITLE"], rows, {
    columns,
    rightAlignedColumns: [2, 3],
  });
}
