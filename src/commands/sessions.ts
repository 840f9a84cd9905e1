import { resolve } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { openStore } from "../serve/compose.js";
import { ConfigError, hasCode, SessionNotFoundError } from "../ports/errors.js";
import { createLogger } from "../base/log.js";
import type { SessionMode } from "../ports/session.js";
import type { ChainData, SessionDriver } from "../ports/session-driver.js";
import { chainLines, ChainReader, headerLine } from "../sessions/export-format.js";
import { loadFor, refuseArguments, type Command, type CommandContext, type Output } from "./command.js";

/** `gantry sessions export [ID ...]` writes sessions as JSON lines to stdout; `gantry sessions import` reads them from stdin. */
export const run: Command = async (context) => {
  const [what, ...ids] = context.args;
  if (what !== "export" && what !== "import") {
    throw new ConfigError(
      `${what === undefined ? "sessions" : `sessions ${what}`}: expected sessions export or sessions import`,
    );
  }
  if (what === "import") refuseArguments(ids);
  const { store, mode } = await open(context);
  try {
    if (what === "export") await exportSessions(store, ids, context.output);
    else await importSessions(store, mode, context.input, context.output);
  } finally {
    await store.close();
  }
  return 0;
};

async function open({ flags, output }: CommandContext): Promise<{ store: SessionDriver; mode: SessionMode }> {
  const { loaded, home } = await loadFor(flags);
  const { config, secrets } = loaded;
  const logger = createLogger({ level: config.log.level, write: (line) => output.tell(line), secrets: () => secrets });
  const store = await openStore({ loaded, home, projectDir: resolve("."), logger });
  return { store, mode: config.permissions.mode };
}

async function exportSessions(store: SessionDriver, wanted: readonly string[], output: Output): Promise<void> {
  const ids = wanted.length > 0 ? await rootsOf(store, wanted) : await allRoots(store);
  await output.write(headerLine());
  for (const id of ids) {
    // Gone meanwhile: no fault of this one.
    const chain = await store.dump(id);
    if (chain) for (const line of chainLines(chain)) await output.write(line);
  }
}

async function rootsOf(store: SessionDriver, ids: readonly string[]): Promise<Set<string>> {
  const roots = new Set<string>();
  for (const id of ids) {
    const session = await store.get(id);
    if (!session) throw new SessionNotFoundError(id);
    roots.add(session.chain.root);
  }
  return roots;
}

/** Oldest first. In one page: between pages a session that changes would move past the place where the list stands. */
async function allRoots(store: SessionDriver): Promise<string[]> {
  const { total } = await store.list({ limit: 1 });
  const { sessions } = await store.list({ limit: total + 1000 });
  return sessions.map(({ id }) => id).reverse();
}

async function importSessions(
  store: SessionDriver,
  mode: SessionMode,
  input: AsyncIterable<Uint8Array>,
  output: Output,
): Promise<void> {
  const reader = new ChainReader();
  let taken = 0;
  let there = 0;
  const count = (n: number): string => `${n} session${n === 1 ? "" : "s"}`;
  try {
    for await (const line of linesOf(input)) {
      const chain = reader.take(line);
      if (!chain) continue;
      try {
        await store.load(asStrange(chain, mode));
        taken++;
      } catch (error) {
        if (!hasCode(error, "session_exists")) throw error;
        there++;
      }
    }
    reader.close();
  } finally {
    const left = there > 0 ? `, ${count(there)} left out that exist already` : "";
    output.tell(`${count(taken)} imported${left}`);
  }
}

/** From the most free to the strictest. */
const MODES: readonly SessionMode[] = ["auto", "ask", "plan"];

/** Whoever wrote the file gives no leave here, and none of its sessions is freer than new ones are. */
function asStrange(chain: ChainData, mode: SessionMode): ChainData {
  const least = MODES.indexOf(mode);
  const sessions = chain.sessions.map((data) => {
    const own = MODES[Math.max(least, MODES.indexOf(data.session.mode))] ?? mode;
    return { ...data, session: { ...data.session, leave: [], mode: own } };
  });
  return { ...chain, sessions };
}

/** Split on LF alone: other line breaks may stand in a JSON text. */
async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  let pieces: string[] = [];
  for await (const chunk of input) {
    const parts = decoder.write(Buffer.from(chunk)).split("\n");
    for (const part of parts.slice(0, -1)) {
      yield pieces.join("") + part;
      pieces = [];
    }
    pieces.push(parts.at(-1) ?? "");
  }
  const rest = pieces.join("") + decoder.end();
  if (rest !== "") yield rest;
}
