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
 * An existing file keeps its mode and owner; `as` applies to a new file. The `history` records the old content first.
 * Returns the real path. Rejects with `PathError`.
 */
export async function replaceFile(
  guard: PathGuard,
  path: string,
  content: Buffer,
  keeper: HistoryContext,
  as?: NewFile,
): Promise<string> {
  const target = await guard.resolveForChange(path);
  const made = keeper.history ? await countMissingParents(guard, target.path) : 0;
  const name = basename(target.path);
  const folder = await guard.openFolder(dirname(target.path), { create: true });
  // A name has at most 255 bytes, and a character takes up to three.
  const temporary = `.${name.slice(0, 70)}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await guard.refuseProtectedIn(folder, name);
    const old = await folder.stat(name);
    if (old?.isDirectory()) throw new PathError("folder", "is a folder");
    if (old?.isSymbolicLink()) throw new PathError("invalid", "is a symbolic link whose target does not exist");
    if (old && !old.isFile()) throw new PathError("not_regular", "not a regular file");
    // A rename would replace a write-protected file.
    if (old) await folder.writable(name);
    const handle = await folder.create(temporary, old ? 0o600 : 0o666);
    try {
      await handle.writeFile(content);
      if (old) {
        const temporaryStats = await handle.stat();
        if (temporaryStats.uid !== old.uid || temporaryStats.gid !== old.gid)
          await handle.chown(old.uid, old.gid).catch(() => undefined);
        await handle.chmod(old.mode & 0o7777);
      } else if (as) {
        if (as.uid !== undefined && as.gid !== undefined) await handle.chown(as.uid, as.gid).catch(() => undefined);
        await handle.chmod(as.mode);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    const after = { kind: "file", content, mode: 0, uid: 0, gid: 0 } as const;
    const keeping = await recordBefore(guard, folder, name, after, keeper, made);
    await folder.rename(temporary, name);
    keeping.commit();
    await folder.sync();
    return join(folder.path, name);
  } catch (error) {
    await folder.discard(temporary);
    throw asPathError(error);
  } finally {
    await folder.close();
  }
}
