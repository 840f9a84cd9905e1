import type { Node } from "@vscode/tree-sitter-wasm";
import { childrenOf, parseText, type Grammar } from "./grammar.js";

/** A position at which the grammar cannot parse the text. */
export interface SyntaxFault {
  /** Line number, from 1. */
  line: number;
  message: string;
}

/** Files with their texts before and after a change; `oldText` is null for a new file. */
export interface SyntaxJob {
  files: readonly { grammar: Grammar; oldText: string | null; newText: string }[];
}

/** Time limit of each parse, in ms. */
const PARSE_TIMEOUT_MS = 1_000;
/** Maximum errors reported per file. Further errors are usually consequences. */
const MAX_FAULTS = 5;
const MAX_SHOWN_CHARACTERS = 40;
const BRACKETS: Readonly<Record<string, string>> = { "{": "}", "(": ")", "[": "]" };
/** An imported type with members or arguments: valid TypeScript that the grammar rejects. */
const IMPORTED_TYPE = /\bimport\((["'])[^"'\n]*\1\)/g;
/** The variance of a type parameter: valid TypeScript that the grammar rejects. */
const TYPE_VARIANCE = /(?<=[<,]\s*)\b(?:in\s+out|in|out)(?=\s+[A-Za-z_$][\w$]*\s*(?:[,>=]|extends\b))/g;

/**
 * Returns the new syntax errors of each file. The list of a file that had an error before the change is empty, because
 * the parser does not recover well.
 */
export function findSyntaxFaults({ files }: SyntaxJob): Promise<SyntaxFault[][]> {
  return Promise.all(
    files.map(async ({ grammar, oldText, newText }) => {
      const faults = await findFaults(grammar, newText, oldText);
      return faults.length > 0 && oldText !== null && (await findFaults(grammar, oldText, null)).length > 0
        ? []
        : faults;
    }),
  );
}

async function findFaults(grammar: Grammar, text: string, oldText: string | null): Promise<SyntaxFault[]> {
  const isTyped = grammar === "typescript" || grammar === "tsx";
  const tree = await parseText(grammar, isTyped ? maskRareTypes(text) : text, PARSE_TIMEOUT_MS);
  if (!tree) return [];
  try {
    const faults: SyntaxFault[] = [];
    const changedRow = oldText === null ? undefined : findFirstChangedRow(oldText, text);
    const pendingNodes: Node[] = tree.rootNode.hasError ? [tree.rootNode] : [];
    for (let node = pendingNodes.pop(); node && faults.length < MAX_FAULTS; node = pendingNodes.pop()) {
      const { row } = node.startPosition;
      if (node.isMissing) faults.push({ line: row + 1, message: `${node.type} is missing` });
      else if (node.isError) faults.push(createFault(node, changedRow));
      else
        pendingNodes.push(
          ...childrenOf(node)
            .filter(({ hasError }) => hasError)
            .toReversed(),
        );
    }
    return faults.sort((a, b) => a.line - b.line);
  } finally {
    tree.delete();
  }
}

/**
 * Creates the report of an error node. Such a node may start far above the cause of the error, and ends after the
 * cause.
 */
function createFault(node: Node, changedRow: number | undefined): SyntaxFault {
  const { row } = node.startPosition;
  if (changedRow !== undefined && row < changedRow && changedRow <= node.endPosition.row)
    return { line: changedRow + 1, message: "syntax error from here on" };
  const openBrackets: Node[] = [];
  for (const child of childrenOf(node))
    if (child.type in BRACKETS) openBrackets.push(child);
    else if (openBrackets.length > 0 && child.type === BRACKETS[openBrackets.at(-1)!.type]) openBrackets.pop();
  const bracket = openBrackets.at(-1);
  if (bracket) return { line: bracket.startPosition.row + 1, message: `${bracket.type} is not closed` };
  return { line: row + 1, message: `syntax error near ${quoteStart(node.text)}` };
}

/** Replaces types that the grammar rejects with text that it accepts. All positions stay the same. */
function maskRareTypes(text: string): string {
  return text
    .replaceAll(IMPORTED_TYPE, (match) => "_".repeat(match.length))
    .replaceAll(TYPE_VARIANCE, (match) => match.replaceAll(/\S/g, " "));
}

function findFirstChangedRow(oldText: string, newText: string): number {
  const [oldLines, newLines] = [oldText.split("\n"), newText.split("\n")];
  return newLines.findIndex((line, i) => line !== oldLines[i]);
}

function quoteStart(text: string): string {
  const [line = ""] = text.trim().split("\n");
  return JSON.stringify(line.length > MAX_SHOWN_CHARACTERS ? `${line.slice(0, MAX_SHOWN_CHARACTERS)}…` : line);
}
