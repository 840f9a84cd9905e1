import { realpath } from "node:fs/promises";
import { parse, resolve } from "node:path";
import { openStore } from "../../serve/compose.js";
import { ConfigError, GantryError, hasCode, InputError } from "../../ports/errors.js";
import { createLogger } from "../../base/log.js";
import type { Message } from "../../ports/message.js";
import type { SessionMode } from "../../ports/session.js";
import type { ChainData, SessionDriver } from "../../ports/session-driver.js";
import { allRoots } from "../../sessions/all-roots.js";
import { listSubagentSessions } from "../../sessions/subagents.js";
import { chainLines, ChainReader, headerLine } from "../../sessions/export-format.js";
import type { exporting } from "../about/sessions.js";
import { loadFor, type CommandHandler, type CommandContext } from "../command.js";
import { SIGNAL_EXIT_CODES } from "../exit-reason.js";
import { adoptOrphans } from "./adopt-orphans.js";
import { ExportFile } from "./export-file.js";
import { readLines } from "../lines.js";
import { notFound } from "../with-sessions.js";
import { Progress } from "../progress.js";

/** Number of characters to collect before a write. */
const CHUNK_CHARACTERS = 64 * 1024;

type Called = CommandContext<typeof exporting.flags>;

/** Resources of an export or import. */
interface TransferContext {
  readonly store: SessionDriver;
  readonly mode: SessionMode;
  readonly progress: Progress;
  /** Aborted by a signal. The reason is the signal's name. */
  readonly interrupted: AbortSignal;
}

/**
 * `gantry sessions export [ID ...]` writes sessions as JSON lines to stdout or a file. `gantry sessions import` reads
 * them from stdin.
 */
export const run: CommandHandler<typeof exporting.flags> = async (context) => {
  const { args: ids, flags, output } = context;
  const isExport = context.name === "sessions export";
  if (!isExport && ids.length > 0)
    throw new ConfigError(`sessions import: reads standard input, got ${ids[0]}: gantry sessions import < FILE`);
  if (flags.resume && flags.output === undefined) throw new ConfigError("--resume needs --output FILE");
  // A progress line would mix with exported lines on the same terminal.
  const isDrawn = !isExport || flags.output !== undefined || !output.isShown;
  const progress = new Progress(output, isDrawn);
  const interrupted = context.interrupted();
  const { store, mode } = await open(context, progress);
  try {
    const work = { store, mode, progress, interrupted };
    await (isExport ? exportSessions(ids, work, context) : importSessions(work, context.input));
    return 0;
  } catch (error) {
    if (!interrupted.aborted || error !== interrupted.reason) throw error;
    return SIGNAL_EXIT_CODES[String(interrupted.reason)] ?? 1;
  } finally {
    progress.clear();
    await store.close();
  }
};

async function open({ flags }: Called, progress: Progress): Promise<{ store: SessionDriver; mode: SessionMode }> {
  const { loaded, home } = await loadFor(flags);
  const { config, secrets } = loaded;
  const logger = createLogger({
    level: config.log.level,
    write: (line) => progress.report(line),
    secrets: () => secrets,
  });
  const store = await openStore({ loaded, home, projectDir: resolve("."), logger });
  return { store, mode: config.permissions.mode };
}

async function exportSessions(ids: readonly string[], work: TransferContext, { flags, output }: Called): Promise<void> {
  const { store, progress, interrupted } = work;
  if (flags.output === undefined) {
    const roots = await rootsOf(store, ids, interrupted);
    await output.write(headerLine());
    await writeChains(roots, new Set(), (text) => output.write(text), work);
    return;
  }
  const path = resolve(flags.output);
  const file = await ExportFile.open(path, flags.resume === true);
  let count = file.roots.size;
  try {
    const roots = await rootsOf(store, ids, interrupted);
    for (const root of file.roots) roots.delete(root);
    await writeChains(
      roots,
      file.roots,
      (text) => file.write(text),
      work,
      () => (count += 1),
    );
    await file.finish();
    progress.report(`${sessions(count)} in ${path}`);
  } catch (error) {
    await file.closePartial();
    progress.report(`${sessions(count)} in ${path}.part; continue with --resume`);
    throw error;
  }
}

/**
 * Writes each session in its current state, after its subagent sessions. `written` are the sessions that the file
 * already contains.
 */
async function writeChains(
  roots: ReadonlySet<string>,
  written: ReadonlySet<string>,
  write: (text: string) => Promise<void>,
  { store, progress, interrupted }: TransferContext,
  onWritten: () => void = () => undefined,
): Promise<void> {
  let total = written.size + roots.size;
  let [count, bytes] = [written.size, 0];
  const put = async (text: string): Promise<void> => {
    await write(text);
    bytes += Buffer.byteLength(text);
    progress.show({ count, bytes, fraction: count / total, total });
  };
  const exportChain = async (id: string): Promise<void> => {
    interrupted.throwIfAborted();
    // Deleted meanwhile: skip it.
    const chain = await store.dump(id);
    count += 1;
    if (!chain) return;
    let text = "";
    for (const line of chainLines(chain)) {
      text += line;
      if (text.length < CHUNK_CHARACTERS) continue;
      await put(text);
      text = "";
    }
    await put(text);
    onWritten();
  };
  for (const id of roots) {
    // Subagents first: if the export is interrupted between them, the parent is missing and `--resume` examines it
    // again.
    for (const helper of await listSubagentSessions(store, id)) {
      if (roots.has(helper) || written.has(helper)) continue;
      total += 1;
      await exportChain(helper);
    }
    await exportChain(id);
  }
}

/** Root ids of the requested sessions. Without ids, all sessions, the oldest first. */
async function rootsOf(store: SessionDriver, ids: readonly string[], interrupted: AbortSignal): Promise<Set<string>> {
  if (ids.length === 0) return new Set([...(await allRoots(store, interrupted))].reverse());
  const roots = new Set<string>();
  for (const id of ids) {
    const session = await store.get(id);
    if (!session) throw notFound(id);
    roots.add(session.chain.root);
  }
  return roots;
}

async function importSessions(work: TransferContext, input: CommandContext["input"]): Promise<void> {
  const { store, mode, progress, interrupted } = work;
  const reader = new ChainReader();
  const { bytes: total } = input;
  const helpers: string[] = [];
  let adopted = 0;
  let [taken, there, refused, bytes] = [0, 0, 0, 0];
  const counted = (chunk: Uint8Array): void => {
    bytes += chunk.length;
    progress.show({ count: taken + there + refused, bytes, fraction: total === undefined ? undefined : bytes / total });
  };
  try {
    for await (const line of readLines(input, counted, interrupted)) {
      interrupted.throwIfAborted();
      const begun = reader.root;
      const chain = reader.take(line);
      const { root } = reader;
      // The first line names the session. Skip an existing one at once, so that a repeated import is fast.
      if (root !== undefined && root !== begun && (await store.get(root))) {
        reader.skipChain();
        there += 1;
      }
      if (!chain) continue;
      try {
        await store.load(await withoutPermissions(chain, mode));
        taken += 1;
        const [original] = chain.sessions;
        if (original?.session.spawnedBy) helpers.push(original.session.id);
      } catch (error) {
        if (hasCode(error, "session_exists")) there += 1;
        else {
          const at = `line ${reader.line}: session ${chain.sessions[0]?.session.id ?? ""}`;
          if (!hasCode(error, "run_key_taken")) throw withLocation(at, error);
          // Only this session is rejected. The import continues.
          refused += 1;
          progress.report(`${at}: ${error.message}`);
        }
      }
    }
    reader.close();
    // At the end, because a parent follows its subagents in the file.
    adopted = await adoptOrphans(store, helpers);
  } finally {
    const skippedText = there > 0 ? `, ${sessions(there)} skipped (already stored)` : "";
    const not = refused > 0 ? `, ${sessions(refused)} refused` : "";
    const interruptedText = interrupted.aborted ? "; interrupted: run the same import again to continue" : "";
    progress.report(`${sessions(taken)} imported${skippedText}${not}${interruptedText}`);
    if (adopted > 0)
      progress.report(`${sessions(adopted)} of subagents without their parent are now ordinary sessions`);
  }
  if (refused > 0) throw new ConfigError(`${sessions(refused)} could not be imported`);
}

function sessions(count: number): string {
  return `${count} session${count === 1 ? "" : "s"}`;
}

/** Adds the location to the error's message. */
function withLocation(where: string, error: unknown): unknown {
  if (error instanceof GantryError) error.message = `${where}: ${error.message}`;
  return error;
}

/** From the most permissive mode to the strictest. */
const MODES: readonly SessionMode[] = ["auto", "ask", "plan"];

/**
 * Removes the permissions that an imported chain claims: grants, a mode more permissive than the default, and the
 * system role of messages.
 *
 * Throws `InputError` if the project folder is the root of a disk.
 */
async function withoutPermissions(chain: ChainData, mode: SessionMode): Promise<ChainData> {
  const least = MODES.indexOf(mode);
  const sessions = chain.sessions.map((data) => {
    const importedMode = MODES[Math.max(least, MODES.indexOf(data.session.mode))] ?? mode;
    return {
      ...data,
      session: { ...data.session, permissionGrants: [], mode: importedMode },
      view: data.view.map(asUser),
      messages: data.messages.map(({ message, hiddenBy }) => ({ message: asUser(message), hiddenBy })),
    };
  });
  for (const folder of new Set(sessions.map(({ session }) => session.projectDir)))
    if (await isRoot(folder)) throw new InputError("session.projectDir", "a folder below the root of a disk");
  return { ...chain, sessions };
}

function asUser(message: Message): Message {
  return message.role === "system" ? { ...message, role: "user" } : message;
}

/** Resolves links, because /proc/self/root leads to the root too. */
async function isRoot(folder: string): Promise<boolean> {
  const real = await realpath(folder).catch(() => folder);
  return parse(real).root === real;
}
