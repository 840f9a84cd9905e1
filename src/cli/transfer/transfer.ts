import { realpath } from "node:fs/promises";
import { parse, resolve } from "node:path";
import { openStore } from "../../serve/compose.js";
import { ConfigError, GantryError, hasCode, InputError } from "../../ports/errors.js";
import type { Message } from "../../ports/message.js";
import type { SessionMode } from "../../ports/session.js";
import type { ChainData, SessionDriver } from "../../ports/session-driver.js";
import { listRootIds } from "../../sessions/root-ids.js";
import { listSubagentSessionIds } from "../../sessions/subagents.js";
import { formatChainLines, ChainReader, formatHeader } from "../../sessions/export-format.js";
import type { exportDescription } from "../descriptions/sessions.js";
import { loadConfigWithFlags, type CommandHandler, type CommandContext } from "../command.js";
import { SIGNAL_EXIT_CODES } from "../signal-exit-codes.js";
import { adoptOrphans } from "./adopt-orphans.js";
import { ExportFile } from "./export-file.js";
import { readLines } from "../lines.js";
import { createCommandLogger } from "../log-writer.js";
import { createNotFoundError } from "../with-sessions.js";
import { Progress } from "../progress.js";

/** Number of characters to collect before a write. */
const CHUNK_CHARACTERS = 64 * 1024;

type TransferCommandContext = CommandContext<typeof exportDescription.flags>;

/** Resources of an export or import. */
interface TransferResources {
  readonly store: SessionDriver;
  /** The most permissive mode that an imported session may have. */
  readonly mode: SessionMode;
  readonly progress: Progress;
  /** Aborted by a signal. The reason is the signal's name. */
  readonly interruptSignal: AbortSignal;
}

/**
 * `gantry sessions export [ID ...]` writes sessions as JSON lines to stdout or a file. `gantry sessions import` reads
 * them from stdin.
 */
export const run: CommandHandler<typeof exportDescription.flags> = async (context) => {
  const { args: ids, flags, output } = context;
  const isExport = context.name === "sessions export";
  if (!isExport && ids.length > 0)
    throw new ConfigError(`sessions import: reads standard input, got ${ids[0]}: gantry sessions import < FILE`);
  if (flags.resume && flags.output === undefined) throw new ConfigError("--resume needs --output FILE");
  // A progress line would mix with exported lines on the same terminal.
  const canDraw = !isExport || flags.output !== undefined || !output.isStdoutTerminal;
  const progress = new Progress(output, canDraw);
  const interruptSignal = context.handleInterrupts();
  const { store, mode } = await openResources(context, progress);
  try {
    const resources = { store, mode, progress, interruptSignal };
    await (isExport ? exportSessions(ids, resources, context) : importSessions(resources, context.input));
    return 0;
  } catch (error) {
    if (!interruptSignal.aborted || error !== interruptSignal.reason) throw error;
    return SIGNAL_EXIT_CODES[String(interruptSignal.reason)] ?? 1;
  } finally {
    progress.clear();
    await store.close();
  }
};

async function openResources(
  { flags, output }: TransferCommandContext,
  progress: Progress,
): Promise<{ store: SessionDriver; mode: SessionMode }> {
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const { config } = loadedConfig;
  const report = (line: string) => progress.report(line);
  const logger = await createCommandLogger(loadedConfig, { columns: output.columns, report });
  const store = await openStore({ loadedConfig, home, projectDir: resolve("."), logger });
  return { store, mode: config.permissions.mode };
}

async function exportSessions(
  ids: readonly string[],
  resources: TransferResources,
  { flags, output }: TransferCommandContext,
): Promise<void> {
  const { store, progress, interruptSignal } = resources;
  if (flags.output === undefined) {
    const roots = await findRoots(store, ids, interruptSignal);
    await output.write(formatHeader());
    await writeChains(roots, new Set(), (text) => output.write(text), resources);
    return;
  }
  const path = resolve(flags.output);
  const file = await ExportFile.open(path, flags.resume === true);
  let count = file.roots.size;
  try {
    const roots = await findRoots(store, ids, interruptSignal);
    for (const root of file.roots) roots.delete(root);
    await writeChains(
      roots,
      file.roots,
      (text) => file.write(text),
      resources,
      () => (count += 1),
    );
    await file.finish();
    progress.report(`${formatSessionCount(count)} in ${path}`);
  } catch (error) {
    await file.closePartial();
    progress.report(`${formatSessionCount(count)} in ${path}.part; continue with --resume`);
    throw error;
  }
}

/**
 * Writes each session in its current state, after its subagent sessions. `exportedRoots` are the sessions that the file
 * already contains.
 */
async function writeChains(
  roots: ReadonlySet<string>,
  exportedRoots: ReadonlySet<string>,
  write: (text: string) => Promise<void>,
  { store, progress, interruptSignal }: TransferResources,
  onChainWritten: () => void = () => undefined,
): Promise<void> {
  let totalCount = exportedRoots.size + roots.size;
  let [count, bytes] = [exportedRoots.size, 0];
  const writeAndShow = async (text: string): Promise<void> => {
    await write(text);
    bytes += Buffer.byteLength(text);
    progress.show({ count, bytes, fraction: count / totalCount, total: totalCount });
  };
  const exportChain = async (id: string): Promise<void> => {
    interruptSignal.throwIfAborted();
    const chain = await store.dump(id);
    count += 1;
    // Undefined: the session was deleted meanwhile.
    if (!chain) return;
    let text = "";
    for (const line of formatChainLines(chain)) {
      text += line;
      if (text.length < CHUNK_CHARACTERS) continue;
      await writeAndShow(text);
      text = "";
    }
    await writeAndShow(text);
    onChainWritten();
  };
  for (const id of roots) {
    // Subagents first. If the export is interrupted before the parent is written, `--resume` examines the parent again.
    for (const subagentId of await listSubagentSessionIds(store, id)) {
      if (roots.has(subagentId) || exportedRoots.has(subagentId)) continue;
      totalCount += 1;
      await exportChain(subagentId);
    }
    await exportChain(id);
  }
}

/** Returns the root ids of the requested sessions. Without ids: of all sessions, the oldest first. */
async function findRoots(
  store: SessionDriver,
  ids: readonly string[],
  interruptSignal: AbortSignal,
): Promise<Set<string>> {
  if (ids.length === 0) return new Set([...(await listRootIds(store, interruptSignal))].reverse());
  const roots = new Set<string>();
  for (const id of ids) {
    const session = await store.get(id);
    if (!session) throw createNotFoundError(id);
    roots.add(session.chain.root);
  }
  return roots;
}

async function importSessions(resources: TransferResources, input: CommandContext["input"]): Promise<void> {
  const { store, mode, progress, interruptSignal } = resources;
  const reader = new ChainReader();
  const { fileBytes: totalBytes } = input;
  const subagentIds: string[] = [];
  let adoptedCount = 0;
  let [importedCount, existingCount, rejectedCount, bytes] = [0, 0, 0, 0];
  const countChunk = (chunk: Uint8Array): void => {
    bytes += chunk.length;
    progress.show({
      count: importedCount + existingCount + rejectedCount,
      bytes,
      fraction: totalBytes === undefined ? undefined : bytes / totalBytes,
    });
  };
  try {
    for await (const line of readLines(input, countChunk, interruptSignal)) {
      interruptSignal.throwIfAborted();
      const previousRoot = reader.root;
      const chain = reader.readLine(line);
      const { root } = reader;
      // The first line names the session. Skip an existing session at once, so that a repeated import is fast.
      if (root !== undefined && root !== previousRoot && (await store.get(root))) {
        reader.skipChain();
        existingCount += 1;
      }
      if (!chain) continue;
      try {
        await store.load(await withoutPermissions(chain, mode));
        importedCount += 1;
        const [rootData] = chain.sessions;
        if (rootData?.session.spawnedBy) subagentIds.push(rootData.session.id);
      } catch (error) {
        if (hasCode(error, "session_exists")) existingCount += 1;
        else {
          const location = `line ${reader.lineNumber}: session ${chain.sessions[0]?.session.id ?? ""}`;
          if (!hasCode(error, "run_key_taken")) throw withLocation(location, error);
          // Only this session is rejected. The import continues.
          rejectedCount += 1;
          progress.report(`${location}: ${error.message}`);
        }
      }
    }
    reader.close();
    // Adopt orphans at the end, because a parent follows its subagents in the file.
    adoptedCount = await adoptOrphans(store, subagentIds);
  } finally {
    const skippedText = existingCount > 0 ? `, ${formatSessionCount(existingCount)} skipped (already stored)` : "";
    const rejectedText = rejectedCount > 0 ? `, ${formatSessionCount(rejectedCount)} rejected` : "";
    const interruptedText = interruptSignal.aborted ? "; interrupted: run the same import again to continue" : "";
    progress.report(`${formatSessionCount(importedCount)} imported${skippedText}${rejectedText}${interruptedText}`);
    if (adoptedCount > 0)
      progress.report(
        `${formatSessionCount(adoptedCount)} of subagents without their parent are now ordinary sessions`,
      );
  }
  if (rejectedCount > 0) throw new ConfigError(`${formatSessionCount(rejectedCount)} could not be imported`);
}

function formatSessionCount(count: number): string {
  return `${count} session${count === 1 ? "" : "s"}`;
}

/** Adds the location to the message of a `GantryError`. Returns the error. */
function withLocation(location: string, error: unknown): unknown {
  if (error instanceof GantryError) error.message = `${location}: ${error.message}`;
  return error;
}

/** From the most permissive mode to the strictest. */
const MODES_BY_STRICTNESS: readonly SessionMode[] = ["auto", "ask", "plan"];

/**
 * Removes the permissions that an imported chain claims: grants, a mode more permissive than the default, and the
 * system role of messages.
 *
 * Throws `InputError` if the project folder is the root of a disk.
 */
async function withoutPermissions(chain: ChainData, mode: SessionMode): Promise<ChainData> {
  const minIndex = MODES_BY_STRICTNESS.indexOf(mode);
  const sessions = chain.sessions.map((data) => {
    const importedMode =
      MODES_BY_STRICTNESS[Math.max(minIndex, MODES_BY_STRICTNESS.indexOf(data.session.mode))] ?? mode;
    return {
      ...data,
      session: { ...data.session, permissionGrants: [], mode: importedMode },
      view: data.view.map(withUserRole),
      messages: data.messages.map(({ message, hiddenBy }) => ({ message: withUserRole(message), hiddenBy })),
    };
  });
  for (const folder of new Set(sessions.map(({ session }) => session.projectDir)))
    if (await isDiskRoot(folder)) throw new InputError("session.projectDir", "a folder below the root of a disk");
  return { ...chain, sessions };
}

function withUserRole(message: Message): Message {
  return message.role === "system" ? { ...message, role: "user" } : message;
}

/** Whether a folder is the root of a disk, also through links such as /proc/self/root. */
async function isDiskRoot(folder: string): Promise<boolean> {
  const resolvedFolder = await realpath(folder).catch(() => folder);
  return parse(resolvedFolder).root === resolvedFolder;
}
