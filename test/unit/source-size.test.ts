import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import ts from "typescript";
import { ROOT } from "../helpers/source-paths.js";

/** A file or function that is longer usually has two reasons to change. */
const MAX_FILE_LINES = 300;
const MAX_FUNCTION_LINES = 60;

function listSources(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)));
}

function containsJsx(node: ts.Node): boolean {
  return (
    ts.isJsxElement(node) ||
    ts.isJsxSelfClosingElement(node) ||
    ts.isJsxFragment(node) ||
    ts.forEachChild(node, containsJsx) === true
  );
}

/** Returns the functions without JSX that are too long, as `file:line lines`. */
function findLongFunctions(file: string, text: string): string[] {
  const ast = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const lineOf = (position: number): number => ast.getLineAndCharacterOfPosition(position).line;
  const longFunctions: string[] = [];
  const visit = (node: ts.Node): void => {
    const lines = lineOf(node.end) - lineOf(node.getStart()) + 1;
    if (ts.isFunctionLike(node) && lines > MAX_FUNCTION_LINES && !containsJsx(node))
      longFunctions.push(`${file}:${lineOf(node.getStart()) + 1} ${lines} lines`);
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return longFunctions;
}

describe("the sources", () => {
  it("have no file of src over 300 lines", () => {
    const longFiles = listSources("src").filter(
      (file) => readFileSync(path.join(ROOT, file), "utf8").split("\n").length - 1 > MAX_FILE_LINES,
    );
    assert.deepEqual(longFiles, []);
  });

  it("have no function over 60 lines, except those that contain JSX", () => {
    const files = [...listSources("src"), ...listSources("adapters")];
    assert.deepEqual(
      files.flatMap((file) => findLongFunctions(file, readFileSync(path.join(ROOT, file), "utf8"))),
      [],
    );
    const longFunction = `function f() {\n${"  g();\n".repeat(MAX_FUNCTION_LINES)}}`;
    assert.deepEqual(findLongFunctions("a.ts", longFunction), ["a.ts:1 62 lines"]);
  });
});
