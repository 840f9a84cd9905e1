import { resolve } from "node:path";
import { withThread } from "../hostile/threads.js";
import type { Tool } from "../ports/tool.js";
import { defineArguments, flag, integer, optional, text } from "./arguments.js";
import { defineTool } from "./define-tool.js";
import type { PathGuard } from "../files/path-guard.js";
import { printable } from "../base/printable.js";
import { folderName, guardFor, location, shown } from "./files.js";
import type { FileToolOptions } from "./files.js";
import { ignoreNotes, newReport, searchIn } from "./search-folder.js";
import { MODEL_BYTES } from "../base/cut-text.js";

const MAX_SHOWN = 1_000;

const schema = defineArguments({
  path: optional(
    text("Folder, relative to the project folder or absolute.", { aliases: ["dir", "directory", "folder"] }),
    ".",
  ),
  depth: optional(integer("How many levels of folders to show.", { min: 1, max: 20 }), 1),
  all: optional(flag("Show what .gitignore hides, too."), false),
});

/** What is in a folder. */
export function listTool(options: FileToolOptions): Tool {
  return defineTool({
    name: "list",
    description: "List a folder, sorted. Folders end in /. What .gitignore hides is left out unless all is set.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ path }, projectDir) => ({
      title: `List ${shown(path || ".", projectDir)}`,
      locations: [location(path || ".", projectDir)],
    }),
    run: async ({ path, depth, all }, context) => {
      const report = newReport();
      const start = path || ".";
      const lines: string[] = [];
      let bytes = 0;
      let more = false;
      const guard = await guardFor(options, context);
      await withThread(context.signal, async (thread) => {
        for await (const entries of await searchIn(thread, options, start, context, { depth, all }, report)) {
          for (const entry of entries) {
            const end =
              entry.kind === "folder" ? "/" : entry.kind === "link" ? ` -> ${await target(guard, entry.path)}` : "";
            const line = `${printable(entry.way)}${end}`;
            bytes += Buffer.byteLength(line) + 1;
            more = lines.length >= MAX_SHOWN || bytes > MODEL_BYTES;
            if (more) return;
            lines.push(line);
          }
        }
      });
      const name = folderName(start, context.projectDir);
      if (lines.length === 0) lines.push(`${name} is empty.`);
      if (more || report.incomplete) lines.push(`[more than is shown; list a folder inside ${name}, or use glob]`);
      if (report.ignored > 0) lines.push(`[${report.ignored} hidden by .gitignore; all shows them]`);
      if (report.unreadable > 0) lines.push(`[${report.unreadable} folders could not be read]`);
      lines.push(...ignoreNotes(report, (one) => shown(one, context.projectDir)));
      return { text: lines.join("\n"), locations: [{ path: resolve(context.projectDir, start) }] };
    },
  });
}

async function target(guard: PathGuard, path: string): Promise<string> {
  return printable((await guard.readLink(path).catch(() => undefined)) ?? "?");
}
