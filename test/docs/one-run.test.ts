import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "../helpers/source-paths.js";

const readPage = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

/** Returns the files of the source that a text names. */
function listNamedFiles(text: string): string[] {
  return [...text.matchAll(/`((?:src|adapters|test)\/[\w./-]+\.tsx?)`/g)].map(([, file = ""]) => file);
}

describe("the files that pages name", () => {
  it("exist", () => {
    const pages = readdirSync(path.join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
    for (const page of ["CONTRIBUTING.md", "SECURITY.md", ...pages.map((name) => `docs/${name}`)])
      for (const file of listNamedFiles(readPage(page)))
        assert.ok(existsSync(path.join(ROOT, file)), `${page} names ${file}`);
  });

  it("contain the names that one-run.md gives beside them", () => {
    const rows = [...readPage("docs/one-run.md").matchAll(/^\| (`[^|]+`) +\| (`[^|]+`) +\|$/gm)];
    assert.ok(rows.length > 20, `${rows.length} rows`);
    for (const [, fileCell = "", nameCell = ""] of rows) {
      const [file = ""] = listNamedFiles(fileCell);
      for (const [, name = ""] of nameCell.matchAll(/`(\w+)`/g))
        assert.match(readPage(file), new RegExp(`^export .*\\b${name}\\b`, "m"), `${file} exports no ${name}`);
    }
  });
});
