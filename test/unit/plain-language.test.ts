import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "../helpers/source-paths.js";
import { commentFaults } from "../helpers/plain-language.mjs";

/** Patterns of comments, by language. ESLint does not read these languages. */
const COMMENT_PATTERNS: Readonly<Record<string, RegExp>> = {
  sql: /^ *-- (.*)$/gm,
  css: /\/\*([^]*?)\*\//g,
  html: /<!--([^]*?)-->/g,
  hash: /^ *# (.*)$/gm,
};
/** Files whose comments begin with `#`. */
const HASH_COMMENT_FILE_PATTERN =
  /(^|\/)(Containerfile|action\.yml|compose\.yaml|haproxy\.cfg|gantry\.service|run|nodes|pre-commit)$/;

const files = ["adapters", "docs", "examples", ".ci", "README.md", "CONTRIBUTING.md", "SECURITY.md"].flatMap(listFiles);
const readText = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

/** Returns the paths of the files below a folder, with `/` as separator. The result for a `.md` file is the file. */
function listFiles(name: string): string[] {
  if (name.endsWith(".md")) return [name];
  return readdirSync(path.join(ROOT, name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join("/"));
}

function findFaults(file: string): string[] {
  const pattern = COMMENT_PATTERNS[HASH_COMMENT_FILE_PATTERN.test(file) ? "hash" : path.extname(file).slice(1)];
  const comments = pattern === undefined ? [] : [...readText(file).matchAll(pattern)].map(([, text = ""]) => text);
  return comments.flatMap((comment) => commentFaults(comment).map(([, text]) => `${file}: “${text}” in “${comment}”`));
}

describe("plain language", () => {
  it("is used in the comments of SQL, style sheets, pages, scripts and service files", () => {
    assert.deepEqual(files.flatMap(findFaults), []);
  });

  it("is used in the documentation, outside of code and links", () => {
    const pages = files.filter((file) => /^(docs\/.*|README|CONTRIBUTING|SECURITY)\.md$/.test(file));
    const removeCode = (page: string): string => page.replace(/^ *```[^]*?^ *```|`[^`\n]*`|\([^)\n]*\)/gm, "x");
    const faults = pages.flatMap((page) =>
      removeCode(readText(page))
        .split(/\n\s*\n|\|/)
        .flatMap((paragraph) => commentFaults(paragraph))
        .filter(([kind]) => kind === "word")
        .map(([, text]) => `${page}: “${text}”`),
    );
    assert.deepEqual(faults, []);
  });

  it("excludes openings without a subject, and words that are not technical terms", () => {
    assert.deepEqual(commentFaults("Of sessions that are new."), [["opening", "Of"]]);
    assert.deepEqual(commentFaults("The watcher is told at once."), [["word", "told"]]);
    assert.deepEqual(commentFaults("Publishes stored events to watchers in this process."), []);
  });
});
