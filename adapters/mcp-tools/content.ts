import type { FilePart, ImagePart } from "gantry";
import { isRecord } from "gantry/plugin";

/** Limits of one result: characters shown to the model, content blocks, images, and bytes of one image. */
const CONTENT_LIMITS = { characters: 30_000, blocks: 1_000, images: 8, imageBytes: 5 * 1024 * 1024 };
const BYTES_PER_BASE64_CHARACTER = 0.75;
/** Base64 characters that contain the signature of each image type. */
const SIGNATURE_BASE64_CHARACTERS = 32;
/** Maximum characters of a name, type or description in a note. */
const MAX_LINE_CHARACTERS = 1_000;
const INVALID_IMAGE = "[an invalid image]";
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** A server's result in the form that models read. */
export interface ModelContent {
  text: string;
  parts: ImagePart[] | (ImagePart | FilePart)[];
}

export function toResultContent(result: Readonly<Record<string, unknown>>): ModelContent {
  const blocks = Array.isArray(result["content"]) ? (result["content"] as unknown[]) : [];
  const content = toModelContent(blocks);
  const { structuredContent } = result;
  // The protocol requires a text block beside structured content, but some servers omit the text block.
  const hasText = blocks.some((block) => isRecord(block) && block["type"] === "text");
  if (structuredContent === undefined || hasText) return content;
  return {
    ...content,
    text: truncate([content.text, formatJson(structuredContent)].filter((text) => text !== "").join("\n")),
  };
}

/** Converts the blocks of a tool result or prompt. */
export function toModelContent(blocks: readonly unknown[]): ModelContent {
  const lines: string[] = [];
  const parts: ImagePart[] = [];
  for (const block of blocks.slice(0, CONTENT_LIMITS.blocks)) {
    const line = isRecord(block) ? formatBlock(block, parts) : "[an invalid content block]";
    if (line !== "") lines.push(line);
  }
  if (blocks.length > CONTENT_LIMITS.blocks)
    lines.push(`[${blocks.length - CONTENT_LIMITS.blocks} more content blocks omitted]`);
  return { text: truncate(lines.join("\n")), parts };
}

/** Converts the contents of a `resources/read` result. */
export function toResourceContent(contents: unknown): ModelContent {
  const resources = Array.isArray(contents) ? (contents as unknown[]) : [];
  return toModelContent(resources.map((resource) => ({ type: "resource", resource })));
}

/** Limits a text to 30,000 characters and a note. A longer text keeps its beginning and its end. */
export function truncate(text: string): string {
  if (text.length <= CONTENT_LIMITS.characters) return text;
  const halfCharacters = CONTENT_LIMITS.characters / 2;
  const omittedCharacters = text.length - CONTENT_LIMITS.characters;
  return `${trimSurrogates(text.slice(0, halfCharacters))}\n[... ${omittedCharacters} characters omitted: request less at a time ...]\n${trimSurrogates(text.slice(-halfCharacters))}`;
}

/** Indents the JSON only within the limit, because indentation multiplies the size of deeply nested values. */
function formatJson(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > CONTENT_LIMITS.characters ? text : JSON.stringify(value, null, 2);
}

function formatBlock(block: Readonly<Record<string, unknown>>, parts: ImagePart[]): string {
  const { type } = block;
  if (type === "text") return textOf(block["text"]);
  if (type === "image") return addImage(block["mimeType"], block["data"], parts);
  if (type === "audio") return `[audio of the type ${toShortLine(block["mimeType"])}, which cannot be played]`;
  if (type === "resource_link") {
    const details = [block["title"] ?? block["name"], block["description"]]
      .map(toShortLine)
      .filter((detail) => detail !== "");
    return `[a resource: ${[toShortLine(block["uri"]), ...details].join(", ")}]`;
  }
  if (type !== "resource" || !isRecord(block["resource"]))
    return `[content of the type ${toShortLine(type)}, which cannot be shown]`;
  const { uri, mimeType, text, blob } = block["resource"];
  if (typeof text === "string") return `[${toShortLine(uri)}]\n${text}`;
  if (IMAGE_TYPES.has(mimeType as string)) return `[${toShortLine(uri)}]\n${addImage(mimeType, blob, parts)}`.trim();
  return `[${toShortLine(uri)}: ${formatSize(blob)} of the type ${toShortLine(mimeType) || "application/octet-stream"}, which cannot be shown]`;
}

/** Adds the image to `parts` and returns `""`. Returns a note instead if the image cannot be shown. */
function addImage(mediaType: unknown, data: unknown, parts: ImagePart[]): string {
  const type = toShortLine(mediaType);
  if (!IMAGE_TYPES.has(type)) return `[an image of the type ${type}, which cannot be shown]`;
  if (typeof data !== "string" || data === "") return INVALID_IMAGE;
  if (data.length * BYTES_PER_BASE64_CHARACTER > CONTENT_LIMITS.imageBytes)
    return `[an image of ${formatSize(data)}, which is too large]`;
  if (parts.length >= CONTENT_LIMITS.images) return "[another image, omitted: too many images]";
  const base64Data = data.replace(/\s+/g, "");
  // Check the actual type: a provider rejects an invalid or mislabelled image. Because the image is stored, every later
  // request of the session would fail too.
  const imageType = /^[A-Za-z0-9+/]+={0,2}$/.test(base64Data)
    ? detectImageType(Buffer.from(base64Data.slice(0, SIGNATURE_BASE64_CHARACTERS), "base64"))
    : undefined;
  if (imageType === undefined) return INVALID_IMAGE;
  parts.push({ type: "image", mediaType: imageType, data: base64Data });
  return "";
}

/** Detects the media type from the first bytes. */
function detectImageType(firstBytes: Buffer): string | undefined {
  const text = firstBytes.toString("latin1");
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(text)) return "image/gif";
  return text.startsWith("RIFF") && text.startsWith("WEBP", 8) ? "image/webp" : undefined;
}

function formatSize(base64: unknown): string {
  return typeof base64 === "string"
    ? `${Math.floor(base64.length * BYTES_PER_BASE64_CHARACTER).toLocaleString("en")} bytes`
    : "no data";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function toShortLine(value: unknown): string {
  return textOf(value).replace(/\s+/g, " ").slice(0, MAX_LINE_CHARACTERS);
}

/** Removes half a surrogate pair at either end. */
function trimSurrogates(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}
