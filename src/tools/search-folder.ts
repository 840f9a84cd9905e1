import { resolve } from "node:path";
import type { ToolContext } from "../ports/tool.js";
import { guardFor, pathFault } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { Gitignore } from "./gitignore.js";
import { walk } from "./walk.js";
import type { Entry, WalkReport } from "./walk.js";

/** Walk a folder that a model named. Rejects with a `ToolError` when it may not, or is none. */
export async function searchIn(
  options: FileToolOptions,
  path: string,
  context: ToolContext,
  how: { depth?: number; all?: boolean },
  report: WalkReport,
): Promise<AsyncGenerator<Entry>> {
  try {
    const guard = await guardFor(options, context.projectDir);
    const folder = await guard.openFolder(resolve(context.projectDir, path));
    await folder.close();
    const ignore =
      how.all === true ? undefined : await Gitignore.open(folder.path, (await guard.resolve(context.projectDir)).path);
    return walk(
      folder.path,
      { guard, ignore, signal: context.signal, ...(how.depth ? { depth: how.depth } : {}) },
      report,
    );
  } catch (error) {
    throw await pathFault(error, path, context.projectDir, options);
  }
}
