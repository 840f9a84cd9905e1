import { isAbsolute, relative, sep } from "node:path";
import { PathError } from "../ports/errors.js";

/** Whether `path` is `folder` or below it; both absolute. Compared by component: `/a/bc` is not inside `/a/b`. */
export function isInside(path: string, folder: string): boolean {
  const relativePath = relative(folder, path);
  return (
    relativePath === "" || (relativePath !== ".." && !relativePath.startsWith(`..${sep}`) && !isAbsolute(relativePath))
  );
}

/**
 * Folds a path as the most lenient file system does: no case, one Unicode form, no ignored characters.
 *
 * Used only to deny access. On a stricter file system it denies slightly more.
 */
export function foldPath(path: string): string {
  return path
    .normalize("NFC")
    .replace(/[\u200B-\u200F\u202A-\u202E\u2060-\u206F\uFEFF]/g, "")
    .toLowerCase();
}

/** Converts the error of a system call to a `PathError` with a readable message. */
export function asPathError(error: unknown): PathError {
  if (error instanceof PathError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const options = { cause: error };
  switch (code) {
    case "ENOENT":
    case "ENOTDIR":
      return new PathError("not_found", "not found", options);
    case "EACCES":
    case "EPERM":
      return new PathError("permission", "permission denied", options);
    case "EROFS":
      return new PathError("permission", "the file system is read-only", options);
    case "ELOOP":
      return new PathError("invalid", "too many symbolic links", options);
    case "ENAMETOOLONG":
      return new PathError("invalid", "the path is too long", options);
    case "ENOSPC":
    case "EDQUOT":
      return new PathError("io", "no space left on the disk", options);
    case "EMFILE":
    case "ENFILE":
      return new PathError("io", "too many open files", options);
    default:
      return new PathError("io", code ?? message, options);
  }
}

/** Error for a path that is not a regular file. The message names the type. */
export function createNotRegularError(stats: {
  isDirectory(): boolean;
  isFIFO(): boolean;
  isSocket(): boolean;
}): PathError {
  if (stats.isDirectory()) return new PathError("folder", "is a folder");
  const kind = stats.isFIFO() ? "a named pipe" : stats.isSocket() ? "a socket" : "a device";
  return new PathError("not_regular", `not a regular file (${kind})`);
}

export function createReplacedError(): PathError {
  return new PathError("io", "another process keeps replacing it; try again");
}

export function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
