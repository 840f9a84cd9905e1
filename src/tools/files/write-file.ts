import { resolve } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { describeUnreadContent, detectFileType, DETECTION_BYTES } from "./content.js";
import {
  createDiff,
  withFileLock,
  createChangeGuard,
  createLocation,
  MAX_FILE_BYTES,
  toPathToolError,
  type WorkFolders,
  SeenFiles,
  formatPath,
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
    const guard = await createChangeGuard(options, context);
    const { path: target } = await guard.resolveForChange(resolve(context.projectDir, path));
    return await withFileLock(target, () =>
      writeContent(guard, target, formatPath(path, context.projectDir), content, context),
    );
  } catch (error) {
    throw await toPathToolError(error, path, context.projectDir, options);
  }
}

/**
 * Previews the replacement of an existing file. Returns an empty preview for a new file. Rejects where the tool call
 * would be rejected.
 */
export async function previewWrite(
  options: FileToolOptions,
  { path, content }: WriteArguments,
  workFolders: WorkFolders,
): Promise<ToolCallPreview> {
  const { projectDir } = workFolders;
  const guard = await createChangeGuard(options, workFolders);
  const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
  const oldContent = await readExisting(guard, target, MAX_PREVIEW_BYTES + 1);
  if (!oldContent) return {};
  const contentType = detectFileType(oldContent.subarray(0, DETECTION_BYTES));
  const isShown =
    contentType.kind === "text" && contentType.encoding === "utf-8" && oldContent.length <= MAX_PREVIEW_BYTES;
  if (!isShown) return { note: "It replaces a file whose content is not shown: it is too large, or not text." };
  const { path: shownPath } = createLocation(path, projectDir);
  return {
    diff: [{ path: shownPath, oldText: oldContent.toString(), newText: preserveFormat(content, oldContent).text }],
  };
}

async function writeContent(
  guard: PathGuard,
  target: string,
  name: string,
  content: string,
  context: ToolContext,
): Promise<ToolOutput> {
  const seenFiles = new SeenFiles(context);
  const oldContent = await readExisting(guard, target);
  if (oldContent && seenFiles.hasChanged(target, oldContent))
    throw new ToolError(
      `${name}: changed since you read it (by a command, another session or a person). Read it again, then write.`,
    );
  const { text, preservedFeatures } = preserveFormat(content, oldContent);
  const bytes = Buffer.from(text);
  const isUnread = oldContent && seenFiles.isUnread(target, oldContent) && !oldContent.equals(bytes);
  context.signal.throwIfAborted();
  const realPath = await replaceFile(guard, target, bytes, context);
  seenFiles.recordSeen(realPath, bytes);
  const lineCount = formatLineCount(content);
  const summary = oldContent
    ? `Replaced ${name}: ${lineCount}, previously ${formatLineCount(oldContent.toString())}`
    : `Created ${name}: ${lineCount}`;
  const warning = isUnread ? describeUnreadContent(oldContent) : "";
  return {
    text: `${warning}${summary}${preservedFeatures.length > 0 ? ` (kept the ${preservedFeatures.join(" and ")})` : ""}.`,
    diff: createDiff(realPath, oldContent ?? null, bytes),
    locations: [{ path: realPath }],
  };
}

/** Converts the new content to the line ends and the byte order mark of the existing file. */
function preserveFormat(
  content: string,
  oldContent: Buffer | undefined,
): { text: string; preservedFeatures: string[] } {
  let text = content;
  const preservedFeatures: string[] = [];
  if (oldContent && detectFileType(oldContent.subarray(0, DETECTION_BYTES)).kind === "text") {
    if (
      oldContent.includes("\r\n") &&
      prefersCrlf(oldContent.toString("latin1")) &&
      !text.includes("\r\n") &&
      text.includes("\n")
    ) {
      text = toCrlf(text);
      preservedFeatures.push("CRLF line endings");
    }
    if (oldContent.subarray(0, 3).equals(Buffer.from("\uFEFF")) && !text.startsWith("\uFEFF")) {
      text = `\uFEFF${text}`;
      preservedFeatures.push("byte order mark");
    }
  }
  return { text, preservedFeatures };
}

/** Reads the first `maxBytes` bytes of the file. Undefined if the file does not exist. */
async function readExisting(guard: PathGuard, target: string, maxBytes = MAX_FILE_BYTES): Promise<Buffer | undefined> {
  try {
    const file = await guard.openFile(target);
    try {
      return await readWhole(file, maxBytes);
    } finally {
      await file.handle.close();
    }
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return undefined;
    throw error;
  }
}

function formatLineCount(text: string): string {
  if (text === "") return "empty";
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return lines === 1 ? "1 line" : `${lines} lines`;
}
