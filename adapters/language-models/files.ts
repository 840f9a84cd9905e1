import type { FilePart, ImagePart } from "gantry";
import type { Model } from "gantry/plugin";

export type InputKind = "text" | "image" | "pdf";

/** Bytes that a model can be shown. */
export interface Media {
  kind: "image" | "pdf";
  mediaType: string;
  filename: string | undefined;
  /** Base64. */
  data: string;
}

/** What bytes are, by their beginning. The media type of a stored file says nothing. */
export function sniff(base64: string): { kind: "image" | "pdf"; mediaType: string } | undefined {
  const head = Buffer.from(base64.slice(0, 64), "base64").toString("latin1");
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return { kind: "image", mediaType: "image/png" };
  if (head.startsWith("\xff\xd8\xff")) return { kind: "image", mediaType: "image/jpeg" };
  if (/^GIF8[79]a/.test(head)) return { kind: "image", mediaType: "image/gif" };
  if (/^RIFF[^]{4}WEBP/.test(head)) return { kind: "image", mediaType: "image/webp" };
  if (head.startsWith("%PDF-")) return { kind: "pdf", mediaType: "application/pdf" };
  return undefined;
}

/** What goes to the model: the bytes where it takes them, else one line that says what was there. */
export function show(part: ImagePart | FilePart, input: ReadonlySet<InputKind>): Media | string {
  const found =
    sniff(part.data) ?? (part.type === "image" ? { kind: "image" as const, mediaType: part.mediaType } : undefined);
  const filename = part.type === "file" && part.filename !== "" ? part.filename : undefined;
  if (found !== undefined && input.has(found.kind)) return { ...found, filename, data: part.data };
  const what = filename ?? (found?.kind === "pdf" ? "PDF" : (found?.kind ?? "file"));
  const type = found?.mediaType ?? "binary";
  const why =
    found === undefined
      ? "not shown"
      : found.kind === "image"
        ? "this model takes no images"
        : "this model takes no PDF";
  return `[${what} (${type}, ${sizeOf(part.data)} bytes): ${why}]`;
}

function sizeOf(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor((base64.length * 3) / 4) - padding);
}

/** What a model takes: as configured or listed, else what all models of the wire take. */
export function inputOf(model: Model, fallback: readonly InputKind[]): ReadonlySet<InputKind> {
  return new Set(model.input ?? fallback);
}
