import { tmpdir } from "node:os";
import { basename, resolve } from "node:path";
import { AttachmentError, hasCode, PathError } from "../ports/errors.js";
import { asPathError, PathGuard, type OpenedFile } from "./path-guard.js";
import type { FilePart } from "../ports/message.js";

const MIB = 1024 * 1024;
/** Maximum size of one attachment, in bytes. */
const MAX_FILE_BYTES = 20 * MIB;
/** Maximum bytes of all files of one run. Limits the memory that a request can use. */
const MAX_TOTAL_BYTES = 64 * MIB;
/** Maximum files of one run. */
const MAX_FILES = 256;
/** Maximum characters of a path in an error message. */
const MAX_SHOWN_PATH_CHARACTERS = 300;

/** The local files that a client may attach. All paths are absolute. */
export interface AttachmentPolicy {
  /** Base folder for relative paths. */
  projectDir: string;
  /**
   * Whether any regular file is allowed, as for local clients. If false, only files in the project folder, in the
   * temporary folder and below `allowPaths` are allowed.
   */
  anywhere: boolean;
  /** Additional allowed files, and folders with everything below them. */
  allowPaths: readonly string[];
  /**
   * Paths that are always denied, with everything below them: gantry's home and store. /proc, /sys and /dev are denied
   * in any case.
   */
  deniedPaths: readonly string[];
  /**
   * Called with the size of each file before the file is read. An exception with the code `too_many_runs` is rethrown
   * unchanged, any other exception becomes an `AttachmentError`. Default: no reservation.
   */
  reserve?: ((bytes: number) => void) | undefined;
}

/**
 * Reads local files as parts of a prompt. Returns either all parts or none.
 *
 * Accepts only regular files of at most 20 MiB, checked on the open file. Named pipes and devices cannot block the
 * call. Rejects with `AttachmentError`.
 */
export async function readAttachments(paths: readonly string[], policy: AttachmentPolicy): Promise<FilePart[]> {
  if (paths.length === 0) return [];
  const roots = [policy.projectDir, tmpdir(), ...policy.allowPaths];
  const guard = await PathGuard.create({
    roots: policy.anywhere ? "anywhere" : roots,
    deniedPaths: policy.deniedPaths,
  });
  const parts: FilePart[] = [];
  let totalBytes = 0;
  for (const path of paths) {
    const createError = (reason: string) =>
      new AttachmentError(
        path.length > MAX_SHOWN_PATH_CHARACTERS ? `${path.slice(0, MAX_SHOWN_PATH_CHARACTERS)}…` : path,
        reason,
      );
    if (parts.length >= MAX_FILES) throw createError(`more than ${MAX_FILES} files`);
    const maxBytes = Math.min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - totalBytes);
    const bytes = await readFile(guard, resolve(policy.projectDir, path), maxBytes, policy.reserve).catch(
      (error: unknown) => {
        if (hasCode(error, "too_many_runs")) throw error;
        if (!(error instanceof FileTooLargeError)) throw createError(asPathError(error).message);
        throw createError(
          error.sizeBytes > MAX_FILE_BYTES ? "larger than 20 MiB" : `more than ${MAX_TOTAL_BYTES / MIB} MiB of files`,
        );
      },
    );
    totalBytes += bytes.length;
    const filename = basename(path);
    parts.push({ type: "file", mediaType: "application/octet-stream", filename, data: bytes.toString("base64") });
  }
  return parts;
}

class FileTooLargeError extends Error {
  constructor(readonly sizeBytes: number) {
    super("too large");
  }
}

async function readFile(
  guard: PathGuard,
  path: string,
  maxBytes: number,
  reserve: AttachmentPolicy["reserve"],
): Promise<Buffer> {
  // This check comes before the path is resolved: /proc holds links whose target depends on the reading process.
  if (guard.denies(path)) throw new PathError("denied", "access is denied");
  const file: OpenedFile = await guard.openFile(path);
  try {
    const sizeBytes = Number(file.stats.size);
    if (sizeBytes > maxBytes) throw new FileTooLargeError(sizeBytes);
    reserve?.(sizeBytes);
    // One extra byte, so that the last read checks for the end of the file. Bytes that were added after `stat` are not
    // returned.
    const bytes = Buffer.allocUnsafe(sizeBytes + 1);
    let readBytes = 0;
    while (readBytes < bytes.length) {
      const { bytesRead } = await file.handle.read(bytes, readBytes, bytes.length - readBytes, readBytes);
      if (bytesRead === 0) break;
      readBytes += bytesRead;
    }
    return bytes.subarray(0, Math.min(readBytes, sizeBytes));
  } finally {
    await file.handle.close();
  }
}
