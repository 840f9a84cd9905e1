import { tmpdir } from "node:os";
import { basename, resolve } from "node:path";
import { AttachmentError, hasCode, PathError } from "../ports/errors.js";
import { asPathError, PathGuard, type OpenedFile } from "./path-guard.js";
import type { FilePart } from "../ports/message.js";

const MIB = 1024 * 1024;
/** Most bytes of one attachment. */
const FILE_BYTES = 20 * MIB;
/** Most bytes and files of one run, so that a request cannot fill the memory. */
const TOTAL_BYTES = 64 * MIB;
const FILES = 256;
/** Characters of a path that a message repeats. */
const SHOWN = 300;

/** Which files of this machine a client may attach. Paths are absolute. */
export interface AttachmentPolicy {
  /** Relative paths start here. */
  projectDir: string;
  /** Any regular file, as for clients of this machine; else the project folder, the temporary folder and `allowPaths`. */
  anywhere: boolean;
  allowPaths: readonly string[];
  /** Never, also below: gantry's home and store. /proc, /sys and /dev are never read. */
  deniedPaths: readonly string[];
  /** Told the bytes of each file before it is read; what it throws is passed on. */
  reserve?: ((bytes: number) => void) | undefined;
}

/**
 * Read files of this machine as parts of a prompt, all or none. Only regular files of at most 20 MiB, checked on what
 * was really opened; neither a named pipe nor a device can make it wait. Rejects with `AttachmentError`.
 */
export async function readAttachments(paths: readonly string[], policy: AttachmentPolicy): Promise<FilePart[]> {
  if (paths.length === 0) return [];
  const roots = [policy.projectDir, tmpdir(), ...policy.allowPaths];
  const guard = await PathGuard.create({ roots: policy.anywhere ? "anywhere" : roots, denied: policy.deniedPaths });
  const parts: FilePart[] = [];
  let total = 0;
  for (const path of paths) {
    const fail = (why: string) => new AttachmentError(path.length > SHOWN ? `${path.slice(0, SHOWN)}…` : path, why);
    if (parts.length >= FILES) throw fail(`more than ${FILES} files`);
    const limit = Math.min(FILE_BYTES, TOTAL_BYTES - total);
    const bytes = await read(guard, resolve(policy.projectDir, path), limit, policy.reserve).catch((error: unknown) => {
      if (hasCode(error, "too_many_runs")) throw error;
      if (!(error instanceof TooLarge)) throw fail(asPathError(error).message);
      throw fail(error.size > FILE_BYTES ? "larger than 20 MiB" : `more than ${TOTAL_BYTES / MIB} MiB of files`);
    });
    total += bytes.length;
    const filename = basename(path);
    parts.push({ type: "file", mediaType: "application/octet-stream", filename, data: bytes.toString("base64") });
  }
  return parts;
}

class TooLarge extends Error {
  constructor(readonly size: number) {
    super("too large");
  }
}

async function read(
  guard: PathGuard,
  path: string,
  limit: number,
  reserve: AttachmentPolicy["reserve"],
): Promise<Buffer> {
  // Not even as a way to somewhere else: /proc is full of links that mean another file to every process.
  if (guard.denies(path)) throw new PathError("denied", "access is denied");
  const file: OpenedFile = await guard.openFile(path);
  try {
    const size = Number(file.stats.size);
    if (size > limit) throw new TooLarge(size);
    reserve?.(size);
    // One more than it should have, to see whether it grows meanwhile.
    const bytes = Buffer.allocUnsafe(size + 1);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.handle.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, Math.min(length, size));
  } finally {
    await file.handle.close();
  }
}
