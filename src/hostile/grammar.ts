import { createRequire } from "node:module";
import type { Parser } from "@vscode/tree-sitter-wasm";

/** Names of grammars, as the package calls their files. */
export type Grammar =
  "bash" | "css" | "go" | "java" | "javascript" | "php" | "python" | "ruby" | "rust" | "tsx" | "typescript";

const parsers = new Map<Grammar, Promise<Parser>>();
let library: Promise<typeof import("@vscode/tree-sitter-wasm")> | undefined;

/** A parser, loaded once. Rejects if its grammar cannot be loaded. */
export function parserOf(grammar: Grammar): Promise<Parser> {
  let parser = parsers.get(grammar);
  if (!parser) parsers.set(grammar, (parser = load(grammar)));
  return parser;
}

async function load(grammar: Grammar): Promise<Parser> {
  const { Language, Parser: Parsers } = await (library ??= loadLibrary());
  const file = createRequire(import.meta.url).resolve(`@vscode/tree-sitter-wasm/wasm/tree-sitter-${grammar}.wasm`);
  return new Parsers().setLanguage(await Language.load(file));
}

async function loadLibrary(): Promise<typeof import("@vscode/tree-sitter-wasm")> {
  const { default: treeSitter } = await import("@vscode/tree-sitter-wasm");
  await treeSitter.Parser.init();
  return treeSitter;
}
