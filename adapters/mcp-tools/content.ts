import { isRecord, type FilePart, type ImagePart } from "gantry";

/** Characters of a result that a model is shown, and images with their bytes. */
const MOST = { characters: 30_000, images: 8, bytes: 5 * 1024 * 1024 };
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** What a server said, as a model can read it. */
export interface Content {
  text: string;
  parts: ImagePart[] | (ImagePart | FilePart)[];
}

/** What a tool brought. */
export function resultContent(result: Readonly<Record<string, unknown>>): Content {
  const blocks = Array.isArray(result["content"]) ? (result["content"] as unknown[]) : [];
  const read = contentOf(blocks);
  const { structuredContent: structured } = result;
  // Those that bring it are to say it as text as well; not all do.
  const isSaid = blocks.some((block) => isRecord(block) && block["type"] === "text");
  if (structured === undefined || isSaid) return read;
  return {
    ...read,
    text: cut([read.text, JSON.stringify(structured, null, 2)].filter((one) => one !== "").join("\n")),
  };
}

/** Blocks of a tool's result, or of a prompt. */
export function contentOf(blocks: readonly unknown[]): Content {
  const lines: string[] = [];
  const parts: ImagePart[] = [];
  for (const block of blocks) {
    const line = isRecord(block) ? lineOf(block, parts) : "[something that is no content]";
    if (line !== "") lines.push(line);
  }
  return { text: cut(lines.join("\n")), parts };
}

/** What `resources/read` brought. */
export function resourceContent(contents: unknown): Content {
  const all = Array.isArray(contents) ? (contents as unknown[]) : [];
  return contentOf(all.map((resource) => ({ type: "resource", resource })));
}

/** A text of at most 30,000 characters, of a longer one beginning and end. */
export function cut(text: string): string {
  if (text.length <= MOST.characters) return text;
  const half = MOST.characters / 2;
  const left = text.length - MOST.characters;
  return `${whole(text.slice(0, half))}\n[... ${left} characters left out: ask for less at a time ...]\n${whole(text.slice(-half))}`;
}

function lineOf(block: Readonly<Record<string, unknown>>, parts: ImagePart[]): string {
  const { type } = block;
  if (type === "text") return textOf(block["text"]);
  if (type === "image") return imageLine(block["mimeType"], block["data"], parts);
  if (type === "audio") return `[audio of the type ${nameOf(block["mimeType"])}: it cannot be heard here]`;
  if (type === "resource_link") {
    const about = [block["title"] ?? block["name"], block["description"]].map(nameOf).filter((one) => one !== "");
    return `[a resource: ${[nameOf(block["uri"]), ...about].join(", ")}]`;
  }
  if (type !== "resource" || !isRecord(block["resource"]))
    return `[content of the kind ${nameOf(type)}, which cannot be shown]`;
  const { uri, mimeType, text, blob } = block["resource"];
  if (typeof text === "string") return `[${nameOf(uri)}]\n${text}`;
  if (IMAGES.has(mimeType as string)) return `[${nameOf(uri)}]\n${imageLine(mimeType, blob, parts)}`.trim();
  return `[${nameOf(uri)}: ${sizeOf(blob)} of the type ${nameOf(mimeType) || "application/octet-stream"}, which cannot be shown]`;
}

/** `""` for one that is shown. */
function imageLine(mediaType: unknown, data: unknown, parts: ImagePart[]): string {
  const type = nameOf(mediaType);
  if (!IMAGES.has(type)) return `[an image of the type ${type}, which cannot be shown]`;
  if (typeof data !== "string" || data === "" || !/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(data.slice(0, 256)))
    return "[an image that is none]";
  if (data.length * 0.75 > MOST.bytes) return `[an image of ${sizeOf(data)}: more than can be shown]`;
  if (parts.length >= MOST.images) return "[an image more than can be shown]";
  parts.push({ type: "image", mediaType: type, data: data.replace(/\s+/g, "") });
  return "";
}

function sizeOf(base64: unknown): string {
  return typeof base64 === "string" ? `${Math.floor(base64.length * 0.75).toLocaleString("en")} bytes` : "nothing";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** In a line. */
function nameOf(value: unknown): string {
  return textOf(value).replace(/\s+/g, " ").slice(0, 1_000);
}

/** Without half a character at an end. */
function whole(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}
