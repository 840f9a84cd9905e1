/** A file that is attached to a prompt. */
export interface AttachedFile {
  /** Unique within this page. */
  key: number;
  filename: string;
  media_type: string;
  /** Content in base64. */
  data: string;
  /** Size in bytes. */
  size: number;
}

const MIB = 1024 * 1024;
/**
 * The server's limits for each file, for all files together and for a file name. A request body may have a lower limit.
 */
const ATTACHMENT_LIMITS = { fileBytes: 20 * MIB, totalBytes: 64 * MIB, files: 256, nameCharacters: 255 };
const MEDIA_TYPE_PATTERN = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;
/** Media types that a model can receive as an image. */
const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

let lastKey = 0;

/** Whether the file is shown as an image. */
export function isImage({ media_type }: { media_type: string }): boolean {
  return IMAGE_TYPES.has(media_type);
}

/** Reads files that the user adds to `attachedFiles`. `refusals`: a message for each file that was not accepted. */
export async function readFiles(
  files: readonly File[],
  attachedFiles: readonly AttachedFile[],
): Promise<{ newFiles: AttachedFile[]; refusals: string[] }> {
  const newFiles: AttachedFile[] = [];
  const refusals: string[] = [];
  let totalBytes = attachedFiles.reduce((sum, { size }) => sum + size, 0);
  for (const file of files) {
    const filename = toFileName(file.name);
    const { size } = file;
    if (attachedFiles.length + newFiles.length >= ATTACHMENT_LIMITS.files)
      refusals.push(`${filename}: at most ${ATTACHMENT_LIMITS.files} files`);
    else if (size > ATTACHMENT_LIMITS.fileBytes) refusals.push(`${filename}: larger than 20 MiB`);
    else if (totalBytes + size > ATTACHMENT_LIMITS.totalBytes)
      refusals.push(`${filename}: all files together exceed 64 MiB`);
    else {
      const data = await readBase64(file).catch(() => undefined);
      if (data === undefined) refusals.push(`${filename}: cannot be read; folders cannot be attached`);
      else {
        totalBytes += size;
        newFiles.push({ key: ++lastKey, filename, media_type: readMediaType(file), data, size });
      }
    }
  }
  return { newFiles, refusals };
}

function readMediaType({ type }: File): string {
  const [mediaType = ""] = type.split(";");
  return MEDIA_TYPE_PATTERN.test(mediaType) ? mediaType : "application/octet-stream";
}

/** Replaces control characters and folder separators, and keeps the end of a long name. */
function toFileName(name: string): string {
  const fileName = name.replace(/[\p{Cc}\p{Cs}/\\]+/gu, "_").slice(-ATTACHMENT_LIMITS.nameCharacters);
  return fileName === "" ? "file" : fileName;
}

/** Reads the content of a file. Rejects if the file cannot be read, for example a folder. */
function readBase64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error ?? new Error("cannot be read"));
    reader.onload = () => {
      const url = typeof reader.result === "string" ? reader.result : "";
      // The data URL of an empty file may lack the comma.
      resolve(url.includes(",") ? url.slice(url.indexOf(",") + 1) : "");
    };
    reader.readAsDataURL(file);
  });
}
