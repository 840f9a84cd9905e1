import type { Node, Parser, Tree } from "@vscode/tree-sitter-wasm";
import { createPackageRequire } from "./package-require.js";

/** Missing in the types of Node. */
declare const WebAssembly: { Memory: new (pages: { initial: number; maximum: number }) => object };

type TreeSitter = typeof import("@vscode/tree-sitter-wasm");

/** Names of grammars as in the package's file names. */
export type Grammar = "bash" | "go" | "java" | "javascript" | "php" | "python" | "ruby" | "rust" | "tsx" | "typescript";

/** Maximum memory of all parsers of a thread, in pages of 64 KiB: 256 MiB. 20 KB of nested text can take 2 GB. */
const MAX_MEMORY_PAGES = 4096;
const INITIAL_MEMORY_PAGES = 512;

/** The package contains WebAssembly files, so bundles do not include it. */
const PACKAGE = "@vscode/tree-sitter-wasm";

const parsersByGrammar = new Map<Grammar, Promise<Parser>>();
let libraryPromise: Promise<TreeSitter> | undefined;

/**
 * Returns the syntax tree of a text, which the caller must delete, or null if parsing takes more than `timeoutMs`.
 *
 * Rejects if the grammar cannot be loaded, or if the text needs too much memory. In the second case the library cannot
 * be used again in this thread.
 */
export async function parseText(grammar: Grammar, text: string, timeoutMs: number): Promise<Tree | null> {
  let parserPromise = parsersByGrammar.get(grammar);
  if (!parserPromise) parsersByGrammar.set(grammar, (parserPromise = loadParser(grammar)));
  const parser = await parserPromise;
  const endMs = performance.now() + timeoutMs;
  const tree = parser.parse(text, null, { progressCallback: () => performance.now() > endMs });
  // Without the reset, the parser would continue with the old text after a timeout.
  if (!tree) parser.reset();
  return tree;
}

async function loadParser(grammar: Grammar): Promise<Parser> {
  const { Language, Parser: ParserClass } = await (libraryPromise ??= loadLibrary());
  return new ParserClass().setLanguage(await Language.load(locateFile(`tree-sitter-${grammar}.wasm`)));
}

async function loadLibrary(): Promise<TreeSitter> {
  const treeSitter = createPackageRequire(PACKAGE)(PACKAGE) as TreeSitter;
  const wasmMemory = new WebAssembly.Memory({ initial: INITIAL_MEMORY_PAGES, maximum: MAX_MEMORY_PAGES });
  // The library prints the reason for an abort. The error of the job reports it instead.
  const options = { locateFile, wasmMemory, printErr: () => undefined };
  await treeSitter.Parser.init(options);
  return treeSitter;
}

function locateFile(name: string): string {
  return createPackageRequire(PACKAGE).resolve(`${PACKAGE}/wasm/${name}`);
}

export function childrenOf(node: Node): Node[] {
  return node.children.filter((child) => child !== null);
}
