import { randomBytes } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { PathError } from "../../ports/errors.js";
import { asPathError, type PathGuard } from "../../files/path-guard.js";
import { recordBefore, countMissingParents, type HistoryContext } from "./record-file.js";

/** Mode and owner of a new file. The owner is set as far as this process has the right. */
export interface NewFile {
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
}

/**
 * Replaces the content of a file, or creates it with its parent folders. The change is atomic and survives a power
 * failure.
 *
 * An existing file keeps its mode and owner; `newFile` applies to a new file. The `history` records the old content first.
 * Returns the real path. Rejects with `PathError`.
 */
export async function replaceFile(
  guard: PathGuard,
  path: string,
  content: Buffer,
  historyContext: HistoryContext,
  newFile?: NewFile,
): Promise<string> {
  const target = await guard.resolveForChange(path);
  const createdFolderCount = historyContext.history ? await countMissingParents(guard, target.path) : 0;
  const name = basename(target.path);
  const folder = await guard.openFolder(dirname(target.path), { create: true });
  // A name has at most 255 bytes. 70 characters take at most 210 bytes, and the additions 18.
  const temporaryName = `.${name.slice(0, 70)}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await guard.refuseProtectedIn(folder, name);
    const oldStats = await folder.stat(name);
    if (oldStats?.isDirectory()) throw new PathError("folder", "is a folder");
    if (oldStats?.isSymbolicLink()) throw new PathError("invalid", "is a symbolic link whose target does not exist");
    if (oldStats && !oldStats.isFile()) throw new PathError("not_regular", "not a regular file");
    // A rename would replace a write-protected file.
    if (oldStats) await folder.requireWritable(name);
    const handle = await folder.createFile(temporaryName, oldStats ? 0o600 : 0o666);
    try {
      await handle.writeFile(content);
      if (oldStats) {
        const temporaryStats = await handle.stat();
        if (temporaryStats.uid !== oldStats.uid || temporaryStats.gid !== oldStats.gid)
          await handle.chown(oldStats.uid, oldStats.gid).catch(() => undefined);
        await handle.chmod(oldStats.mode & 0o7777);
      } else if (newFile) {
        if (newFile.uid !== undefined && newFile.gid !== undefined)
          await handle.chown(newFile.uid, newFile.gid).catch(() => undefined);
        await handle.chmod(newFile.mode);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    const newState = { kind: "file", content, mode: 0, uid: 0, gid: 0 } as const;
    const record = await recordBefore(guard, folder, name, newState, historyContext, createdFolderCount);
    await folder.rename(temporaryName, name);
    record.commit();
    await folder.sync();
    return join(folder.path, name);
  } catch (error) {
    await folder.discard(temporaryName);
    throw asPathError(error);
  } finally {
    await folder.close();
  }
}
