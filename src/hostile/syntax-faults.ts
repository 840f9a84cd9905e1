import type { Node } from "@vscode/tree-sitter-wasm";
import { parserOf, type Grammar } from "./grammar.js";

/** A place that a grammar cannot read. */
export interface SyntaxFault {
  /** From 1. */
  line: number;
  message: string;
}

/** Files with their texts before and after a change; `was` is null for a new file. */
export interface SyntaxJob {
  files: readonly { grammar: Grammar; was: string | null; is: string }[];
}

/** Faults of one file. More say nothing new. */
const MAX_FAULTS = 5;
const MAX_SHOWN_CHARACTERS = 40;

/** For each file the faults of a change; none if the text before it had a fault too, since a parser does not recover well. */
export function syntaxFaults({ files }: SyntaxJob): Promise<SyntaxFault[][]> {
  return Promise.all(
    files.map(async ({ grammar, was, is }) => {
      const faults = await faultsOf(grammar, is);
      return faults.length > 0 && was !== null && (await faultsOf(grammar, was)).length > 0 ? [] : faults;
    }),
  );
}

async function faultsOf(grammar: Grammar, text: string): Promise<SyntaxFault[]> {
  const tree = (await parserOf(grammar)).parse(text);
  if (!tree) return [];
  try {
    const faults: SyntaxFault[] = [];
    const open: Node[] = tree.rootNode.hasError ? [tree.rootNode] : [];
    for (let node = open.pop(); node && faults.length < MAX_FAULTS; node = open.pop()) {
      const line = node.startPosition.row + 1;
      if (node.isMissing) faults.push({ line, message: `${node.type} is missing` });
      else if (node.isError) faults.push({ line, message: `syntax error near ${shown(node.text)}` });
      else open.push(...node.children.filter((child) => child !== null && child.hasError).toReversed() as Node[]);
    }
    return faults.sort((a, b) => a.line - b.line);
  } finally {
    tree.delete();
  }
}

function shown(text: string): string {
  const [line = ""] = text.trim().split("\n");
  return JSON.stringify(line.length > MAX_SHOWN_CHARACTERS ? `${line.slice(0, MAX_SHOWN_CHARACTERS)}…` : line);
}
