import { resolve } from "node:path";
import { ToolError, WorkLimitError } from "../ports/errors.js";
import type { EditedFile, TextEdit } from "../hostile/apply-edit.js";
import { withThread } from "../hostile/threads.js";
import type { ToolContext, ToolOutput } from "../ports/tool.js";
import { size, sniff } from "./content.js";
import { diffOf, exclusively, guardForChange, MAX_FILE_BYTES, pathFault, SeenFiles, shown } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { readWhole } from "./read-file.js";
import { replaceFile } from "./replace-file.js";

/** For all edits of a call, in ms. */
const EDIT_MS = 10_000;

/** Apply edits to one file in order, all or none. */
export async function editFile(
  options: FileToolOptions,
  path: string,
  edits: readonly TextEdit[],
  context: ToolContext,
): Promise<ToolOutput> {
  const { projectDir } = context;
  const name = shown(path, projectDir);
  try {
    const guard = await guardForChange(options, context);
    const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
    return await exclusively(target, async () => {
      const seen = new SeenFiles(context);
      const read = async (): Promise<Buffer> => {
        const file = await guard.openFile(target);
        try {
          if (file.stats.size > MAX_FILE_BYTES)
            throw new ToolError(
              `${name}: has ${size(Number(file.stats.size))}, more than edit takes. Use bash with sed or a script.`,
            );
          return await readWhole(file, MAX_FILE_BYTES);
        } finally {
          await file.handle.close();
        }
      };
      const before = await read();
      const content = sniff(before.subarray(0, 8_192));
      if (content.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
      if (content.encoding !== "utf-8")
        throw new ToolError(`${name}: is ${content.encoding} text, which edit cannot change. Use bash.`);
      if (seen.changed(target, before))
        throw new ToolError(
          `${name}: changed since you read it (by a command, another session or a person). Read it again, then edit.`,
        );

      const { content: edited, done, line } = await edit(before, edits, name, context.signal);
      const after = Buffer.from(edited.buffer, edited.byteOffset, edited.byteLength);
      context.signal.throwIfAborted();
      // The last look before the change: someone outside this process may have saved meanwhile.
      if (!(await read()).equals(before)) throw new ToolError(`${name}: changed just now. Read it again, then edit.`);
      const real = await replaceFile(guard, target, after, context);
      seen.saw(real, after);
      return {
        text: `Edited ${name}: replaced ${done.join("; ")}.`,
        diff: diffOf(real, before, after),
        locations: [{ path: real, ...(line === undefined ? {} : { line }) }],
      };
    });
  } catch (error) {
    throw await pathFault(error, path, projectDir, options);
  }
}

async function edit(
  before: Buffer,
  edits: readonly TextEdit[],
  name: string,
  signal: AbortSignal,
): Promise<EditedFile> {
  // Memory of its own, because it goes over to the thread.
  const content = new Uint8Array(before);
  const job = { content, edits, name, maxBytes: MAX_FILE_BYTES };
  try {
    const edited = await withThread(signal, (thread) => thread.ask("edit", job, { ms: EDIT_MS, transfer: [content] }));
    if ("refused" in edited) throw new ToolError(edited.refused);
    return edited;
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the edit was given up: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
