import { resolve } from "node:path";
import { ConfigError } from "../ports/errors.js";
import type { MessageMatch } from "../ports/session-queries.js";
import type { search } from "./descriptions/sessions.js";
import type { CommandHandler } from "./command.js";
import { formatTable, formatTime } from "./table.js";
import { UsageError } from "./usage-error.js";
import { withSessions } from "./with-sessions.js";

/** Number of matches per read. */
const PAGE_SIZE = 100;
const DEFAULT_LIMIT = 20;

/** `gantry sessions search`: prints a table, or JSON with `--json`. */
export const run: CommandHandler<typeof search.flags> = async (context) => {
  const { args, flags, output } = context;
  const { limit = DEFAULT_LIMIT, folder, archived, json } = flags;
  const text = args.join(" ");
  if (text.trim() === "") throw new UsageError("a text to search for is required");
  if (!Number.isSafeInteger(limit) || limit < 0)
    throw new ConfigError(`--limit: expected a whole number, got ${limit}`);
  return withSessions(context, async ({ sessions }) => {
    const maxMatches = limit === 0 ? Infinity : limit;
    const matches: MessageMatch[] = [];
    let before: string | undefined;
    do {
      const page = await sessions.search({
        text,
        archived: archived ? "only" : "exclude",
        projectDir: folder === undefined ? undefined : resolve(folder),
        limit: Math.min(PAGE_SIZE, maxMatches - matches.length),
        before,
      });
      matches.push(...page.matches);
      before = page.next;
    } while (before !== undefined && matches.length < maxMatches);
    if (json) await output.write(`${JSON.stringify(matches, null, 2)}\n`);
    else if (matches.length === 0) output.report("no messages");
    else await output.write(formatMatches(matches, output.isStdoutTerminal ? output.columns : undefined));
    return 0;
  });
};

function formatMatches(matches: readonly MessageMatch[], columns: number | undefined): string {
  const rows = matches.map(({ sessionId, createdAt, role, snippet }) => [
    sessionId,
    formatTime(createdAt),
    role,
    snippet,
  ]);
  return formatTable(["SESSION", "TIME", "ROLE", "TEXT"], rows, { columns, rightAlignedColumns: [] });
}
