import type { FilePart, ImagePart } from "gantry";

export type InputKind = "text" | "image" | "pdf";

/** An image or PDF for a model. */
export interface Media {
  kind: "image" | "pdf";
  mediaType: string;
  filename: string | undefined;
  /** Base64. */
  data: string;
}

/** Base64 characters that contain the signature of each detected type. */
const SIGNATURE_BASE64_CHARACTERS = 64;

/** Detects the type by the first bytes; undefined for other types. The media type of a stored file is not trusted. */
export function detectType(base64: string): { kind: "image" | "pdf"; mediaType: string } | undefined {
  const firstBytes = Buffer.from(base64.slice(0, SIGNATURE_BASE64_CHARACTERS), "base64").toString("latin1");
  if (firstBytes.startsWith("\x89PNG\r\n\x1a\n")) return { kind: "image", mediaType: "image/png" };
  if (firstBytes.startsWith("\xff\xd8\xff")) return { kind: "image", mediaType: "image/jpeg" };
  if (/^GIF8[79]a/.test(firstBytes)) return { kind: "image", mediaType: "image/gif" };
  if (/^RIFF[^]{4}WEBP/.test(firstBytes)) return { kind: "image", mediaType: "image/webp" };
  if (firstBytes.startsWith("%PDF-")) return { kind: "pdf", mediaType: "application/pdf" };
  return undefined;
}

/** The file if the model accepts its type, otherwise one line that describes the file. */
export function toMediaOrText(part: ImagePart | FilePart, input: ReadonlySet<InputKind>): Media | string {
  const detectedType =
    detectType(part.data) ??
    (part.type === "image" ? { kind: "image" as const, mediaType: part.mediaType } : undefined);
  const filename = part.type === "file" && part.filename !== "" ? part.filename : undefined;
  if (detectedType !== undefined && input.has(detectedType.kind)) return { ...detectedType, filename, data: part.data };
  const label = filename ?? (detectedType?.kind === "pdf" ? "PDF" : (detectedType?.kind ?? "file"));
  const type = detectedType?.mediaType ?? "binary";
  const reason =
    detectedType === undefined
      ? "not shown"
      : detectedType.kind === "image"
        ? "this model takes no images"
        : "this model takes no PDF";
  return `[${label} (${type}, ${decodedBytesOf(part.data)} bytes): ${reason}]`;
}

function decodedBytesOf(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor((base64.length * 3) / 4) - padding);
}
