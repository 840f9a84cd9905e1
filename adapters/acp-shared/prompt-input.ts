import path from "node:path";
import type { FilePart, ImagePart } from "gantry";
import { isRecord } from "gantry/plugin";
import { toParamsError } from "./errors.js";

/** The input of a run from a prompt's content blocks. */
export interface PromptInput {
  message: string;
  attachments: (ImagePart | FilePart)[];
  /** Types of the ignored blocks. */
  ignoredTypes: string[];
  /** Trace context of the client (`_meta.traceparent`), if there is one. */
  trace?: string;
}

const IMAGE_MEDIA_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * Reads the first text block of a prompt. With `readsAllBlocks`, reads every text, resource, link and image in order.
 * Throws `RpcError` for an invalid prompt.
 */
export function readPrompt(prompt: unknown, readsAllBlocks: boolean): PromptInput {
  if (!Array.isArray(prompt)) throw toParamsError("prompt", "an array of content blocks");
  const blocks = prompt.map((block: unknown, index) => {
    if (!isRecord(block) || typeof block.type !== "string")
      throw toParamsError(`prompt[${index}]`, "a content block with a type");
    if (block.type === "text" && typeof block.text !== "string")
      throw toParamsError(`prompt[${index}].text`, "a string");
    return { index, type: block.type, block };
  });
  const firstText = blocks.find(({ type }) => type === "text");
  const input: PromptInput = { message: "", attachments: [], ignoredTypes: [] };
  if (!readsAllBlocks) {
    if (!firstText) throw toParamsError("prompt", "a text block");
    input.message = String(firstText.block.text);
    input.ignoredTypes = blocks.filter((promptBlock) => promptBlock !== firstText).map(({ type }) => type);
  } else {
    const texts: string[] = [];
    for (const { type, block, index } of blocks)
      if (!addBlock(type, block, `prompt[${index}]`, texts, input.attachments)) input.ignoredTypes.push(type);
    input.message = texts.filter((text) => text !== "").join("\n");
  }
  if (input.message.trim() === "" && input.attachments.length === 0) {
    if (firstText) throw toParamsError(`prompt[${firstText.index}].text`, "a text that is not empty");
    throw toParamsError("prompt", "a block of text, image, resource_link or resource");
  }
  return input;
}

/** Reads `_meta.traceparent` of W3C Trace Context. Other values are ignored, as that specification requires. */
export function readTrace(meta: unknown): Pick<PromptInput, "trace"> {
  const trace = isRecord(meta) ? meta.traceparent : undefined;
  return typeof trace === "string" && /^[\da-f-]{55,512}$/.test(trace) ? { trace } : {};
}

type Block = Readonly<Record<string, unknown>>;

/** Adds the block to `texts` or `attachments`. Returns false, and adds nothing, for an unsupported type. */
function addBlock(
  type: string,
  block: Block,
  field: string,
  texts: string[],
  attachments: PromptInput["attachments"],
): boolean {
  switch (type) {
    case "text":
      texts.push(String(block.text));
      return true;
    case "image": {
      const mediaType = readText(block, "mimeType", field);
      attachments.push(
        createAttachment(mediaType, readText(block, "data", field), toFileName(toOptionalString(block.uri) ?? "image")),
      );
      return true;
    }
    case "resource_link":
      texts.push(`[@${readText(block, "name", field)}](${readText(block, "uri", field)})`);
      return true;
    case "resource": {
      const { resource } = block;
      if (!isRecord(resource)) throw toParamsError(`${field}.resource`, "an object");
      const uri = readText(resource, "uri", `${field}.resource`);
      if (typeof resource.text === "string")
        texts.push(`<context ref=${JSON.stringify(uri)}>\n${resource.text}\n</context>`);
      else {
        const mediaType = toOptionalString(resource.mimeType) ?? "application/octet-stream";
        attachments.push(createAttachment(mediaType, readText(resource, "blob", `${field}.resource`), toFileName(uri)));
      }
      return true;
    }
    default:
      return false;
  }
}

function createAttachment(mediaType: string, data: string, filename: string): ImagePart | FilePart {
  if (IMAGE_MEDIA_TYPES.has(mediaType)) return { type: "image", mediaType, data };
  return { type: "file", mediaType, filename, data };
}

function readText(block: Block, key: string, field: string): string {
  const value = block[key];
  if (typeof value !== "string") throw toParamsError(`${field}.${key}`, "a string");
  return value;
}

function toOptionalString(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The file name in a URI; `resource` if there is none. */
function toFileName(uri: string): string {
  const baseName = path.posix.basename(uri.replace(/[?#].*$/, ""));
  return baseName === "" ? "resource" : baseName;
}
