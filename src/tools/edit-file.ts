import { resolve } from "node:path";
import { setImmediate as pause } from "node:timers/promises";
import { ToolError } from "../errors.js";
import type { ToolContext, ToolOutput } from "../ports/tool.js";
import { applyEdit } from "./apply-edit.js";
import type { TextEdit } from "./apply-edit.js";
import { size, sniff } from "./content.js";
import { diffOf, exclusively, guardForChange, MAX_FILE_BYTES, pathFault, SeenFiles, shown } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { readWhole } from "./read.js";
import { replaceFile } from "./replace-file.js";

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
    const guard = await guardForChange(options, projectDir);
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

      let latin = before.toString("latin1");
      const done: string[] = [];
      let line: number | undefined;
      for (const [index, edit] of edits.entries()) {
        const which = edits.length > 1 ? `${name} (edit ${index + 1} of ${edits.length}; none was applied)` : name;
        // A large file keeps the process busy for a moment with each edit; others get their turn between them.
        await pause();
        context.signal.throwIfAborted();
        const applied = applyEdit(latin, edit, which, Math.max(MAX_FILE_BYTES, before.length));
        latin = applied.latin;
        line ??= applied.line;
        done.push(applied.count > 1 ? `${applied.count} times from line ${applied.line}` : `at line ${applied.line}`);
      }
      const after = Buffer.from(latin, "latin1");
      context.signal.throwIfAborted();
      // The last look before the change: someone outside this process may have saved meanwhile.
      if (!(await read()).equals(before)) throw new ToolError(`${name}: changed just now. Read it again, then edit.`);
      const real = await replaceFile(guard, target, after);
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
