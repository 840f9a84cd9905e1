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
 * The server's limits: bytes of a file, bytes of all files, number of files, characters of a name. A request body may
 * have a lower limit.
 */
const ATTACHMENT_LIMITS = { bytes: 20 * MIB, total: 64 * MIB, files: 256, name: 255 };
const MEDIA_TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;
/** Media types that a model can receive as an image. */
const IMAGES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

let last = 0;

/** Whether the file is shown as an image. */
export function isImage({ media_type }: { media_type: string }): boolean {
  return IMAGES.has(media_type);
}

/** Reads files that the user adds to those in `before`. `refused` has a message for each file that was not accepted. */
export async function readFiles(
  files: readonly File[],
  before: readonly AttachedFile[],
): Promise<{ attached: AttachedFile[]; refused: string[] }> {
  const attached: AttachedFile[] = [];
  const refused: string[] = [];
  let total = before.reduce((sum, { size }) => sum + size, 0);
  for (const file of files) {
    const filename = nameOf(file.name);
    const { size } = file;
    if (before.length + attached.length >= ATTACHMENT_LIMITS.files)
      refused.push(`${filename}: at most ${ATTACHMENT_LIMITS.files} files`);
    else if (size > ATTACHMENT_LIMITS.bytes) refused.push(`${filename}: larger than 20 MiB`);
    else if (total + size > ATTACHMENT_LIMITS.total) refused.push(`${filename}: more than 64 MiB together`);
    else {
      const data = await base64Of(file).catch(() => undefined);
      if (data === undefined) refused.push(`${filename}: cannot be read; is it a folder?`);
      else {
        total += size;
        attached.push({ key: ++last, filename, media_type: mediaTypeOf(file), data, size });
      }
    }
  }
  return { attached, refused };
}

function mediaTypeOf({ type }: File): string {
  const [bare = ""] = type.split(";");
  return MEDIA_TYPE.test(bare) ? bare : "application/octet-stream";
}

/** Removes control characters and folder separators, and keeps the end of a long name. */
function nameOf(name: string): string {
  const bare = name.replace(/[\p{Cc}\p{Cs}/\\]+/gu, "_").slice(-ATTACHMENT_LIMITS.name);
  return bare === "" ? "file" : bare;
}

function base64Of(file: File): Promise<string> {
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
