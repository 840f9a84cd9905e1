import { cutMiddle } from "../../base/cut-text.js";

/** The type of a file, detected from its first bytes. */
export type FileType =
  | { kind: "text"; encoding: "utf-8" | "utf-16le" | "utf-16be" }
  | { kind: "image"; mediaType: string }
  | { kind: "pdf"; description: string }
  | { kind: "binary"; description: string };

/** Bytes at the start of a file that decide its type. */
export const DETECTION_BYTES = 8_192;
/** Bytes that are searched for signatures, which are at the start of a file. */
const MAX_SIGNATURE_BYTES = 512;
/** Maximum bytes of replaced content that a result shows. */
const MAX_UNREAD_BYTES = 8_000;

const SIGNATURES: readonly (readonly [signature: string, description: string, offset?: number])[] = [
  ["PK\x03\x04", "a ZIP archive (or an Office document)"],
  ["\x1f\x8b", "gzip data"],
  ["BZh", "bzip2 data"],
  ["\xfd7zXZ\0", "xz data"],
  ["\x28\xb5\x2f\xfd", "zstd data"],
  ["7z\xbc\xaf", "a 7-Zip archive"],
  ["ustar", "a tar archive", 257],
  ["\x7fELF", "an ELF executable"],
  ["MZ", "a Windows executable"],
  ["\xcf\xfa\xed\xfe", "a Mach-O executable"],
  ["\xca\xfe\xba\xbe", "a Java class or universal executable"],
  ["\0asm", "WebAssembly"],
  ["SQLite format 3\0", "a SQLite database"],
  ["OggS", "Ogg media"],
  ["ID3", "MP3 audio"],
  ["RIFF", "RIFF media"],
  ["ftyp", "MP4 media", 4],
  ["BM", "a BMP image"],
  ["wOFF", "a web font"],
  ["wOF2", "a web font"],
];

/** Detects whether a file is text, an image, a PDF or binary. `start`: up to the first `DETECTION_BYTES` bytes. */
export function detectFileType(start: Buffer): FileType {
  const latin1Text = start.toString("latin1", 0, MAX_SIGNATURE_BYTES);
  if (latin1Text.startsWith("\x89PNG\r\n\x1a\n")) return { kind: "image", mediaType: "image/png" };
  if (latin1Text.startsWith("\xff\xd8\xff")) return { kind: "image", mediaType: "image/jpeg" };
  if (/^GIF8[79]a/.test(latin1Text)) return { kind: "image", mediaType: "image/gif" };
  if (latin1Text.startsWith("RIFF") && latin1Text.startsWith("WEBP", 8))
    return { kind: "image", mediaType: "image/webp" };
  if (latin1Text.startsWith("\xff\xfe")) return { kind: "text", encoding: "utf-16le" };
  if (latin1Text.startsWith("\xfe\xff")) return { kind: "text", encoding: "utf-16be" };
  if (latin1Text.startsWith("%PDF-")) return { kind: "pdf", description: "a PDF document" };
  if (!start.includes(0)) return { kind: "text", encoding: "utf-8" };
  const signature = SIGNATURES.find(([magic, , offset = 0]) => latin1Text.startsWith(magic, offset));
  return { kind: "binary", description: signature?.[1] ?? "binary data" };
}

/** Formats a size for users and models. */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Returns the warning for replaced content that the session never read, with the content: the model may restore it. */
export function describeUnreadContent(content: Buffer): string {
  const fileType = detectFileType(content.subarray(0, DETECTION_BYTES));
  const warning = "Warning: this session had not read the file that this call replaced";
  if (fileType.kind !== "text") return `${warning}: ${formatSize(content.length)}, not text.\n`;
  const text = new TextDecoder(fileType.encoding).decode(content).replace(/\r?\n$/, "");
  return `${warning}. Put back what must stay of its content:\n${cutMiddle(text, MAX_UNREAD_BYTES)}\n[end of the replaced content]\n`;
}
