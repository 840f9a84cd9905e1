import { resolve } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { sniff } from "./content.js";
import {
  diffOf,
  withFileLock,
  guardForChange,
  location,
  MAX_FILE_BYTES,
  pathFault,
  type WorkFolders,
  SeenFiles,
  shown,
} from "./files.js";
import type { FileToolOptions } from "./files.js";
import { prefersCrlf, toCrlf } from "../../files/line-ends.js";
import { readWhole } from "./read-file.js";
import { replaceFile } from "./replace-file.js";

/** Maximum size of the old content that a permission request shows, because the request is stored with it. */
const MAX_PREVIEW_BYTES = 256 * 1024;

type WriteArguments = Readonly<{ path: string; content: string }>;

/** Runs the `write` tool. Rejects with `ToolError`, or with the signal's reason. */
export async function writeFile(
  options: FileToolOptions,
  { path, content }: WriteArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  try {
    const guard = await guardForChange(options, context);
    const { path: target } = await guard.resolveForChange(resolve(context.projectDir, path));
    return await withFileLock(target, () =>
      writeContent(guard, target, shown(path, context.projectDir), content, context),
    );
  } catch (error) {
    throw await pathFault(error, path, context.projectDir, options);
  }
}

/**
 * Previews the replacement of an existing file. Empty for a new file. Rejects where the tool call would be rejected.
 */
export async function previewWrite(
  options: FileToolOptions,
  { path, content }: WriteArguments,
  reach: WorkFolders,
): Promise<ToolCallPreview> {
  const { projectDir } = reach;
  const guard = await guardForChange(options, reach);
  const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
  const old = await readExisting(guard, target, MAX_PREVIEW_BYTES + 1);
  if (!old) return {};
  const contentType = sniff(old.subarray(0, 8_192));
  const isShown = contentType.kind === "text" && contentType.encoding === "utf-8" && old.length <= MAX_PREVIEW_BYTES;
  if (!isShown) return { note: "It replaces a file whose content is not shown: it is too large, or not text." };
  const { path: place } = location(path, projectDir);
  return { diff: [{ path: place, oldText: old.toString(), newText: preserveFormat(content, old).text }] };
}

async function writeContent(
  guard: PathGuard,
  target: string,
  name: string,
  content: string,
  context: ToolContext,
): Promise<ToolOutput> {
  const seen = new SeenFiles(context);
  const old = await readExisting(guard, target);
  if (old && seen.hasChanged(target, old))
    throw new ToolError(
      `${name}: changed since you read it (by a command, another session or a person). Read it again, then write.`,
    );
  const { text, preservedFeatures } = preserveFormat(content, old);
  const bytes = Buffer.from(text);
  context.signal.throwIfAborted();
  const real = await replaceFile(guard, target, bytes, context);
  seen.recordSeen(real, bytes);
  const lines = count(content);
  const what = old ? `Replaced ${name}: ${lines}, previously ${count(old.toString())}` : `Created ${name}: ${lines}`;
  return {
    text: `${what}${preservedFeatures.length > 0 ? ` (kept the ${preservedFeatures.join(" and ")})` : ""}.`,
    diff: diffOf(real, old ?? null, bytes),
    locations: [{ path: real }],
  };
}

/** Converts the new content to the line ends and the byte order mark of the existing file. */
function preserveFormat(content: string, old: Buffer | undefined): { text: string; preservedFeatures: string[] } {
  let text = content;
  const preservedFeatures: string[] = [];
  if (old && sniff(old.subarray(0, 8_192)).kind === "text") {
    if (old.includes("\r\n") && prefersCrlf(old.toString("latin1")) && !text.includes("\r\n") && text.includes("\n")) {
      text = toCrlf(text);
      preservedFeatures.push("CRLF line endings");
    }
    if (old.subarray(0, 3).equals(Buffer.from("\uFEFF")) && !text.startsWith("\uFEFF")) {
      text = `\uFEFF${text}`;
      preservedFeatures.push("byte order mark");
    }
  }
  return { text, preservedFeatures };
}

/** Reads the first `limit` bytes of the file. Undefined if it does not exist. */
async function readExisting(guard: PathGuard, target: string, limit = MAX_FILE_BYTES): Promise<Buffer | undefined> {
  try {
    const file = await guard.openFile(target);
    try {
      return await readWhole(file, limit);
    } finally {
      await file.handle.close();
    }
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return undefined;
    throw error;
  }
}

function count(text: string): string {
  if (text === "") return "empty";
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return lines === 1 ? "1 line" : `${lines} lines`;
}
