import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { ToolError, ToolInputError, WorkLimitError } from "../ports/errors.js";
import type { HostileThread } from "../hostile/threads.js";
import type { Entry, WalkReport } from "../hostile/walk.js";
import type { WalkJob } from "../hostile/walk-job.js";
import type { ToolContext } from "../ports/tool.js";
import { guardFor, pathFault } from "./files.js";
import type { FileToolOptions } from "./files.js";

/** For one part of a walk, in ms. The thread keeps its own, shorter times; this is for what does not look at them. */
const PART_MS = 30_000;

export function newReport(): WalkReport {
  return { ignored: 0, incomplete: false, slowPatterns: false, unreadable: 0, cut: [] };
}

/**
 * Walk a folder that a model named, in a thread: what a repository holds decides how long that takes. Rejects with a
 * `ToolError` when it may not, or is none; what cannot be finished is told in `report`, which is filled meanwhile.
 */
export async function searchIn(
  thread: HostileThread,
  options: FileToolOptions,
  path: string,
  context: ToolContext,
  how: { depth?: number; all?: boolean; only?: WalkJob["only"] },
  report: WalkReport,
): Promise<AsyncGenerator<Entry[]>> {
  let job: WalkJob;
  try {
    const guard = await guardFor(options, context);
    const folder = await guard.openFolder(resolve(context.projectDir, path));
    try {
      const { dev, ino } = await stat(folder.at("."), { bigint: true });
      job = { start: folder.path, identity: { dev, ino }, denied: options.deniedPaths };
    } finally {
      await folder.close();
    }
    if (how.all !== true) job.ignoreFrom = (await guard.resolve(context.projectDir)).path;
    if (how.depth !== undefined) job.depth = how.depth;
    if (how.only) job.only = how.only;
  } catch (error) {
    throw await pathFault(error, path, context.projectDir, options);
  }
  const { refused } = await limited(thread.ask("walk", job, { ms: PART_MS }));
  if (refused !== undefined) throw new ToolInputError(`pattern: ${refused}. Use a simpler glob.`);
  return parts(thread, report);
}

async function* parts(thread: HostileThread, report: WalkReport): AsyncGenerator<Entry[]> {
  for (let done = false; !done;) {
    const part = await thread.ask("more", {}, { ms: PART_MS }).catch((error: unknown) => {
      if (!(error instanceof WorkLimitError)) throw error;
      return undefined;
    });
    if (!part) {
      report.incomplete = true;
      return;
    }
    report.ignored += part.report.ignored;
    report.unreadable += part.report.unreadable;
    report.cut.push(...part.report.cut);
    report.incomplete ||= part.report.incomplete;
    report.slowPatterns ||= part.report.slowPatterns;
    ({ done } = part);
    if (part.entries.length > 0) yield part.entries;
  }
}

/** What the model is told of ignore files that were not used whole; `[]` where all were. */
export function ignoreNotes(report: WalkReport, name: (path: string) => string): string[] {
  const notes: string[] = [];
  if (report.slowPatterns) notes.push("[the patterns take too long for so many names; all leaves .gitignore aside]");
  if (report.cut.length > 0) {
    const names = report.cut.slice(0, 3).map((folder) => name(`${folder}/.gitignore`));
    notes.push(`[too large, not all rules are used: ${names.join(", ")}${report.cut.length > 3 ? ", …" : ""}]`);
  }
  return notes;
}

/** A limit as the model is told of it. */
async function limited<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`the search was given up: ${error.message}. Use a smaller folder or a simpler pattern.`, {
      cause: error,
    });
  }
}
