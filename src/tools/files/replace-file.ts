import { randomBytes } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { PathError } from "../../ports/errors.js";
import { asPathError, type PathGuard } from "../../files/path-guard.js";
import { keepBefore, missingAbove, type Keeper } from "./record-file.js";

/** What a new file has; the owner as far as this process may give it away. */
export interface NewFile {
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
}

/**
 * Put `content` in place of a file, or make it with its folders: whole or not at all, kept through a power cut.
 * Mode and owner of an existing file stay; `as` is what a new one has. `path` is resolved by the guard; the resolved one is
 * returned. What was there is kept by the `history` first, so that it can be undone.
 */
export async function replaceFile(
  guard: PathGuard,
  path: string,
  content: Buffer,
  keeper: Keeper,
  as?: NewFile,
): Promise<string> {
  const target = await guard.resolveForChange(path);
  const made = keeper.history ? await missingAbove(guard, target.path) : 0;
  const name = basename(target.path);
  const folder = await guard.openFolder(dirname(target.path), { create: true });
  // A name has at most 255 bytes, of which a character takes up to three.
  const temporary = `.${name.slice(0, 70)}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await guard.refuseProtectedIn(folder, name);
    const old = await folder.stat(name);
    if (old?.isDirectory()) throw new PathError("folder", "is a folder");
    if (old?.isSymbolicLink()) throw new PathError("invalid", "is a symbolic link that leads nowhere");
    if (old && !old.isFile()) throw new PathError("not_regular", "not a regular file");
    // A rename would go over a write-protected file without asking.
    if (old) await folder.writable(name);
    const handle = await folder.create(temporary, old ? 0o600 : 0o666);
    try {
      await handle.writeFile(content);
      if (old) {
        const own = await handle.stat();
        if (own.uid !== old.uid || own.gid !== old.gid) await handle.chown(old.uid, old.gid).catch(() => undefined);
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
    const keeping = await keepBefore(guard, folder, name, after, keeper, made);
    await folder.rename(temporary, name);
    keeping.done();
    await folder.sync();
    return join(folder.path, name);
  } catch (error) {
    await folder.discard(temporary);
    throw asPathError(error);
  } finally {
    await folder.close();
  }
}
