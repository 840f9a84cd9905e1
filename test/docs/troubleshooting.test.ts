import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "../helpers/source-paths.js";

const PAGE = "docs/troubleshooting.md";

/** Texts of the shell and of Node. */
const OTHER_PROGRAM_TEXTS = new Set(["command not found: gantry", "Cannot find package 'gantry'"]);

/** Texts that gantry joins from several constants, with these constants. */
const CONSTANTS_BY_TEXT: Readonly<Record<string, readonly string[]>> = {
  "unknown command <name>; expected one of <names>": ["expected one of"],
  "expected <names>, a package installed in the config file's folder, or a path": [
    "a package installed in the config file's folder, or a path",
  ],
  "request from another PID namespace refused": ["from another PID namespace"],
  "request of a process that gantry cannot see refused": ["of a process that gantry cannot see"],
  "unknown model; did you mean <name>?": ["unknown model", "; did you mean "],
  "(ECONNREFUSED); is the server running?": ["); is the server running?"],
  "ended at its budget": ["ended at ", "its budget"],
  "ended at the maximum number of iterations": ["ended at ", "the maximum number of iterations"],
  "no user can answer: tool calls that need permission are denied": [
    "no user can answer: tool calls that need permission ",
    "are denied",
  ],
};

/** Returns all sources as one text. Strings that `+` joins become one string. */
function readSources(): string {
  const files = ["src", "adapters"].flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => path.join(folder, name)),
  );
  return files
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => readFileSync(path.join(ROOT, file), "utf8"))
    .join("\n")
    .replace(/["'`]\s*\+\s*["'`]/g, "");
}

describe(PAGE, () => {
  it("quotes only texts that occur in the sources, except for the parts in <...>", () => {
    const sourceText = readSources();
    // The first cell of each row. A cell without code describes a symptom in words.
    const cells = [...readFileSync(path.join(ROOT, PAGE), "utf8").matchAll(/^\| (`.*?) *\| /gm)].map(
      ([, cell]) => cell,
    );
    const texts = cells.flatMap((cell = "") => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text));
    assert.ok(texts.length > 120, String(texts.length));
    for (const text of texts.filter((quotedText) => !OTHER_PROGRAM_TEXTS.has(quotedText)))
      for (const part of CONSTANTS_BY_TEXT[text] ?? text.split(/<[^<>]+>/)) {
        const constant = part.replace(/^[\s:,;]+|[\s:,;]+$/g, "");
        // Shorter constants are only separators between variable parts.
        if (constant.length > 4) assert.ok(sourceText.includes(constant), `${JSON.stringify(constant)} of ${text}`);
      }
  });
});
