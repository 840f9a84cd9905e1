import path from "node:path";
import type { FilePart, ImagePart } from "gantry";
import { isRecord } from "gantry/plugin";
import { invalidParams } from "./errors.js";

/** The input of a run from a prompt's content blocks. */
export interface PromptInput {
  message: string;
  attachments: (ImagePart | FilePart)[];
  /** Types of the ignored blocks. */
  ignored: string[];
}

const IMAGES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * Reads the first text block only, or with `readsAllBlocks` every text, resource, link and image in order. Throws
 * `RpcError` for an invalid prompt.
 */
export function readPrompt(prompt: unknown, readsAllBlocks: boolean): PromptInput {
  if (!Array.isArray(prompt)) throw invalidParams("prompt", "an array of content blocks");
  const blocks = prompt.map((block: unknown, at) => {
    if (!isRecord(block) || typeof block.type !== "string")
      throw invalidParams(`prompt[${at}]`, "a content block with a type");
    if (block.type === "text" && typeof block.text !== "string") throw invalidParams(`prompt[${at}].text`, "a string");
    return { at, type: block.type, block };
  });
  const first = blocks.find(({ type }) => type === "text");
  const input: PromptInput = { message: "", attachments: [], ignored: [] };
  if (!readsAllBlocks) {
    if (!first) throw invalidParams("prompt", "a text block");
    input.message = String(first.block.text);
    input.ignored = blocks.filter((promptBlock) => promptBlock !== first).map(({ type }) => type);
  } else {
    const texts: string[] = [];
    for (const { type, block, at } of blocks)
      if (!addBlock(type, block, `prompt[${at}]`, texts, input.attachments)) input.ignored.push(type);
    input.message = texts.filter((text) => text !== "").join("\n");
  }
  if (input.message.trim() === "" && input.attachments.length === 0) {
    if (first) throw invalidParams(`prompt[${first.at}].text`, "a text that is not empty");
    throw invalidParams("prompt", "a block of text, image, resource_link or resource");
  }
  return input;
}

type Block = Readonly<Record<string, unknown>>;

/** Adds the block to `texts` or `attachments`. Returns false for an unsupported type. */
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
      const mediaType = text(block, "mimeType", field);
      attachments.push(attachment(mediaType, text(block, "data", field), nameOf(optional(block.uri) ?? "image")));
      return true;
    }
    case "resource_link":
      texts.push(`[@${text(block, "name", field)}](${text(block, "uri", field)})`);
      return true;
    case "resource": {
      const { resource } = block;
      if (!isRecord(resource)) throw invalidParams(`${field}.resource`, "an object");
      const uri = text(resource, "uri", `${field}.resource`);
      if (typeof resource.text === "string")
        texts.push(`<context ref=${JSON.stringify(uri)}>\n${resource.text}\n</context>`);
      else {
        const mediaType = optional(resource.mimeType) ?? "application/octet-stream";
        attachments.push(attachment(mediaType, text(resource, "blob", `${field}.resource`), nameOf(uri)));
      }
      return true;
    }
    default:
      return false;
  }
}

function attachment(mediaType: string, data: string, filename: string): ImagePart | FilePart {
  if (IMAGES.has(mediaType)) return { type: "image", mediaType, data };
  return { type: "file", mediaType, filename, data };
}

function text(block: Block, key: string, field: string): string {
  const value = block[key];
  if (typeof value !== "string") throw invalidParams(`${field}.${key}`, "a string");
  return value;
}

function optional(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function nameOf(uri: string): string {
  const last = path.posix.basename(uri.replace(/[?#].*$/, ""));
  return last === "" ? "resource" : last;
}
