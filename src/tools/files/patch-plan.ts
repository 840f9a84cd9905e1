import { resolve } from "node:path";
import { PathError, ToolError, WorkLimitError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import { withThread } from "../../untrusted/workers.js";
import { size, sniff } from "./content.js";
import { MAX_FILE_BYTES, shown } from "./files.js";
import type { PatchSection } from "./patch-text.js";
import { readWhole } from "./read-file.js";

/** For all pieces of one file, in ms. */
const PATCH_MS = 10_000;

/** A file that a patch changes: what it is now and what it becomes; null where it is not. */
export interface PlannedFile {
  /** Resolved. */
  readonly path: string;
  /** As the model knows it. */
  name: string;
  readonly before: Buffer | null;
  after: Buffer | null;
  /** Where it changed first. */
  line?: number | undefined;
  /** What was overlooked, in words. */
  how: string[];
  /** Of the file that is there, or that came here; undefined of a new one. */
  mode: number | undefined;
  /** Whether the path that was named is a symbolic link. */
  readonly isLink: boolean;
  /** What it was called, of one that was moved here. */
  movedFrom?: string;
  /** Whether it went somewhere else. */
  isMoved?: boolean;
}

/** Where a patch may work, and on what. */
export interface PlanRules {
  readonly guard: PathGuard;
  readonly projectDir: string;
  readonly signal: AbortSignal;
  /** Why a file that is there may not be changed; undefined where it may. */
  refusal(file: { path: string; before: Buffer }, action: PatchSection["action"]): string | undefined;
  /** What the model is told of a path that cannot be used. */
  fault(error: unknown, path: string): Promise<unknown>;
}

/**
 * What a patch makes of the files, each section of what the one before it left. Changes nothing. Rejects with `ToolError`,
 * or what `fault` makes of it.
 */
export async function planPatch(sections: readonly PatchSection[], rules: PlanRules): Promise<PlannedFile[]> {
  const files = new Map<string, PlannedFile>();
  for (const section of sections) {
    const { path, action } = section;
    const file = await fileAt(path, action, files, rules);
    if (action === "add") file.after = Buffer.from(section.content);
    else if (file.after === null) throw await rules.fault(new PathError("not_found", "not found"), path);
    else if (action === "delete") file.after = null;
    else {
      if (section.chunks.length > 0) await patch(file, section.chunks, rules.signal);
      if (section.moveTo !== undefined) move(file, await fileAt(section.moveTo, "update", files, rules));
    }
  }
  return [...files.values()].filter(({ before, after }) => before !== null || after !== null);
}

async function fileAt(
  path: string,
  action: PatchSection["action"],
  files: Map<string, PlannedFile>,
  { guard, projectDir, signal, refusal, fault }: PlanRules,
): Promise<PlannedFile> {
  signal.throwIfAborted();
  const name = shown(path, projectDir);
  try {
    const own = resolve(projectDir, path);
    const { path: target } = await guard.resolveForChange(own);
    const known = files.get(target);
    if (known) return known;
    const { content: before, mode } = await contentOf(guard, target, name);
    const refused = before && refusal({ path: target, before }, action);
    if (typeof refused === "string") throw new ToolError(`${name}: ${refused}`);
    const isLink = before !== null && (await guard.readLink(own)) !== undefined;
    const file: PlannedFile = { path: target, name, before, after: before, mode, isLink, how: [] };
    files.set(target, file);
    return file;
  } catch (error) {
    throw await fault(error, path);
  }
}

function move(file: PlannedFile, to: PlannedFile): void {
  if (to === file) return;
  if (to.after !== null)
    throw new ToolError(
      `${to.name}: is there already, so ${file.name} is not moved to it. Delete it, or take another name.`,
    );
  const { after, line, how, mode } = file;
  Object.assign(to, { after, line, how, mode, movedFrom: file.name });
  Object.assign(file, { after: null, how: [], isMoved: true });
}

/** What is there; null for nothing. */
export async function contentOf(
  guard: PathGuard,
  path: string,
  name: string,
): Promise<{ content: Buffer | null; mode: number | undefined }> {
  try {
    const file = await guard.openFile(path);
    try {
      if (file.stats.size > MAX_FILE_BYTES)
        throw new ToolError(`${name}: has ${size(Number(file.stats.size))}, more than a patch takes. Use bash.`);
      return { content: await readWhole(file, MAX_FILE_BYTES), mode: Number(file.stats.mode) & 0o7777 };
    } finally {
      await file.handle.close();
    }
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return { content: null, mode: undefined };
    throw error;
  }
}

async function patch(
  file: PlannedFile,
  chunks: (PatchSection & { action: "update" })["chunks"],
  signal: AbortSignal,
): Promise<void> {
  const { name, after } = file;
  if (after === null) return;
  const found = sniff(after.subarray(0, 8_192));
  if (found.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
  if (found.encoding !== "utf-8")
    throw new ToolError(`${name}: is ${found.encoding} text, which a patch cannot change. Use bash.`);
  // Memory of its own, because it goes over to the thread.
  const content = new Uint8Array(after);
  const job = { content, chunks, name, maxBytes: MAX_FILE_BYTES };
  try {
    const patched = await withThread(signal, (thread) =>
      thread.ask("patch", job, { ms: PATCH_MS, transfer: [content] }),
    );
    if ("refused" in patched) throw new ToolError(patched.refused);
    const { content: bytes, line, how } = patched;
    file.after = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    file.line ??= line;
    file.how = [...file.how, ...how];
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the patch was given up: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
