import { resolve } from "node:path";
import type { OpenedFile } from "../../files/path-guard.js";
import { DETECTION_BYTES, detectFileType } from "./content.js";
import { createGuard, type FileToolOptions } from "./files.js";

/** Maximum bytes of a text that a preview contains. */
const MAX_TEXT_BYTES = 512 * 1024;
/** Maximum size of an image that a preview contains, in bytes. */
const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

/** The beginning of a file, for people. */
export interface FilePreview {
  /** Real path, without symbolic links. */
  readonly path: string;
  /** Size of the file in bytes. */
  readonly size: number;
  /** Null for a file that is not text. */
  readonly text: string | null;
  /** Content of an image in base64. Null for other files and for an image that is too large. */
  readonly data: string | null;
  /** Whether the preview contains less than the file. */
  readonly truncated: boolean;
  readonly mediaType: string;
  readonly modifiedAt: Date;
}

/**
 * Reads the beginning of a regular file that the tool `read` may open: in the project folder or an allowed folder, and
 * not denied. Rejects with `PathError`.
 */
export async function readFilePreview(
  path: string,
  projectDir: string,
  options: Pick<FileToolOptions, "allowPaths" | "deniedPaths">,
): Promise<FilePreview> {
  const guard = await createGuard(options, { projectDir });
  const file = await guard.openFile(resolve(projectDir, path));
  try {
    return await readPreview(file);
  } finally {
    await file.handle.close();
  }
}

async function readPreview(file: OpenedFile): Promise<FilePreview> {
  const { path, stats } = file;
  const size = Number(stats.size);
  const start = await readStart(file, DETECTION_BYTES);
  const fileType = detectFileType(start);
  const fields = { path, size, modifiedAt: new Date(Number(stats.mtimeMs)) };
  if (fileType.kind === "text") {
    const bytes = await readStart(file, MAX_TEXT_BYTES);
    const truncated = size > bytes.length;
    // A cut character at the end is dropped.
    const text = new TextDecoder(fileType.encoding).decode(bytes, { stream: truncated });
    return { ...fields, text, data: null, truncated, mediaType: "text/plain" };
  }
  const mediaType =
    fileType.kind === "image"
      ? fileType.mediaType
      : fileType.kind === "pdf"
        ? "application/pdf"
        : "application/octet-stream";
  const isShown = fileType.kind === "image" && size <= MAX_IMAGE_BYTES;
  const data = isShown ? (await readStart(file, MAX_IMAGE_BYTES)).toString("base64") : null;
  return { ...fields, text: null, data, truncated: !isShown, mediaType };
}

/** Reads at most the first `maxBytes` bytes. */
async function readStart({ handle, stats }: OpenedFile, maxBytes: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(Math.min(maxBytes, Number(stats.size)));
  let readBytes = 0;
  while (readBytes < bytes.length) {
    const { bytesRead } = await handle.read(bytes, readBytes, bytes.length - readBytes, readBytes);
    if (bytesRead === 0) break;
    readBytes += bytesRead;
  }
  return bytes.subarray(0, readBytes);
}
