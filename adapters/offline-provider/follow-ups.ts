import type { Result } from "./calls.js";
import type { Plan, Step } from "./plan.js";
import { MANIFESTS } from "./topics.js";

/** What the results so far make worth a look. Calls that were made already are left out by the caller. */
export function followUps(plan: Plan, results: readonly Result[]): Step[] {
  const steps: Step[] = [];
  const listing = results.find(({ tool, failed }) => tool === "list" && !failed)?.output ?? "";

  if (plan.overview && listing !== "") {
    const readme = /(?:^|[\s/])(README(?:\.[A-Za-z]+)?)(?=$|\s)/im.exec(listing)?.[1];
    if (readme !== undefined) steps.push({ tool: "read", path: readme });
    const manifest = MANIFESTS.find((name) => names(listing, name));
    if (manifest !== undefined) steps.push({ tool: "read", path: manifest });
  }

  for (const result of results) {
    const path = pathOf(result);
    if (!result.failed || path === undefined) continue;
    if (result.tool === "read") {
      if (/\b(?:folder|directory|EISDIR)\b/i.test(result.output) && !/\boutside\b/i.test(result.output)) {
        steps.push({ tool: "list", path });
      } else if (/not found|no such|does not exist|ENOENT/i.test(result.output)) {
        if (plan.manifestMeant && path === "package.json") {
          // Another ecosystem: look for its manifest.
          steps.push({ tool: "list" });
          const other = MANIFESTS.find((name) => name !== path && names(listing, name));
          if (other !== undefined) steps.push({ tool: "read", path: other });
        } else {
          steps.push({ tool: "glob", pattern: `**/${baseName(path)}` }, ...elsewhere(path, results));
        }
      }
    } else if (result.tool === "list") {
      if (/not a (?:folder|directory)|is a file|ENOTDIR/i.test(result.output)) steps.push({ tool: "read", path });
      else if (/not found|no such|does not exist|ENOENT/i.test(result.output)) {
        steps.push({ tool: "glob", pattern: `**/${baseName(path)}/*` });
      }
    }
  }
  return steps;
}

/** Files of the same name that a glob found, at most three. */
function elsewhere(path: string, results: readonly Result[]): Step[] {
  const name = baseName(path);
  const steps: Step[] = [];
  for (const { tool, output, failed, arguments: input } of results) {
    if (tool !== "glob" || failed || !input.includes(`**/${name}`)) continue;
    for (const line of output.split("\n")) {
      const found = line.trim();
      if (found !== path && baseName(found) === name && !/\s/.test(found)) steps.push({ tool: "read", path: found });
    }
  }
  return steps.slice(0, 3);
}

function names(listing: string, file: string): boolean {
  return listing.split(/\s+/).some((word) => word === file || word === `./${file}`);
}

export function pathOf(result: Result): string | undefined {
  const input = inputOf(result);
  for (const name of ["path", "file_path", "filePath", "file", "filename", "dir", "directory", "folder"]) {
    const value = input[name];
    if (typeof value === "string") return value;
  }
  return undefined;
}

export function inputOf(result: Result): Record<string, unknown> {
  try {
    const input = JSON.parse(result.arguments) as unknown;
    return typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function baseName(path: string): string {
  return path.replace(/\/+$/, "").replace(/^.*\//, "");
}
