import type { Node } from "@vscode/tree-sitter-wasm";
import { childrenOf, parseText, type Grammar } from "./grammar.js";

/** A place that the grammar cannot parse. */
export interface SyntaxFault {
  /** Line number, from 1. */
  line: number;
  message: string;
}

/** Files with their texts before and after a change; `was` is null for a new file. */
export interface SyntaxJob {
  files: readonly { grammar: Grammar; was: string | null; is: string }[];
}

/** Time limit of each parse, in ms. */
const PARSE_MS = 1_000;
/** Maximum errors reported per file. Further errors are usually consequences. */
const MAX_FAULTS = 5;
const MAX_SHOWN_CHARACTERS = 40;
const BRACKETS: Readonly<Record<string, string>> = { "{": "}", "(": ")", "[": "]" };
/**
 * Valid TypeScript that the grammar rejects: an imported type with members or arguments, and the variance of a type
 * parameter.
 */
const IMPORT = /\bimport\((["'])[^"'\n]*\1\)/g;
const VARIANCE = /(?<=[<,]\s*)\b(?:in\s+out|in|out)(?=\s+[A-Za-z_$][\w$]*\s*(?:[,>=]|extends\b))/g;

/**
 * Syntax errors of a change, one list per file. Empty if the file had an error before, because the parser does not
 * recover well.
 */
export function syntaxFaults({ files }: SyntaxJob): Promise<SyntaxFault[][]> {
  return Promise.all(
    files.map(async ({ grammar, was, is }) => {
      const faults = await faultsOf(grammar, is, was);
      return faults.length > 0 && was !== null && (await faultsOf(grammar, was, null)).length > 0 ? [] : faults;
    }),
  );
}

async function faultsOf(grammar: Grammar, text: string, before: string | null): Promise<SyntaxFault[]> {
  const isTyped = grammar === "typescript" || grammar === "tsx";
  const tree = await parseText(grammar, isTyped ? withoutRareTypes(text) : text, PARSE_MS);
  if (!tree) return [];
  try {
    const faults: SyntaxFault[] = [];
    const changedRow = before === null ? undefined : firstChangedRow(before, text);
    const open: Node[] = tree.rootNode.hasError ? [tree.rootNode] : [];
    for (let node = open.pop(); node && faults.length < MAX_FAULTS; node = open.pop()) {
      const { row } = node.startPosition;
      if (node.isMissing) faults.push({ line: row + 1, message: `${node.type} is missing` });
      else if (node.isError) faults.push(faultOf(node, changedRow));
      else
        open.push(
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

/** An error node may start far above its cause, and ends after it. */
function faultOf(node: Node, changedRow: number | undefined): SyntaxFault {
  const { row } = node.startPosition;
  if (changedRow !== undefined && row < changedRow && changedRow <= node.endPosition.row)
    return { line: changedRow + 1, message: "syntax error from here on" };
  const opened: Node[] = [];
  for (const child of childrenOf(node))
    if (child.type in BRACKETS) opened.push(child);
    else if (opened.length > 0 && child.type === BRACKETS[opened.at(-1)!.type]) opened.pop();
  const bracket = opened.at(-1);
  if (bracket) return { line: bracket.startPosition.row + 1, message: `${bracket.type} is not closed` };
  return { line: row + 1, message: `syntax error near ${quoteStart(node.text)}` };
}

/** Replaces these types with text that the grammar accepts. All positions stay the same. */
function withoutRareTypes(text: string): string {
  return text
    .replaceAll(IMPORT, (all) => "_".repeat(all.length))
    .replaceAll(VARIANCE, (all) => all.replaceAll(/\S/g, " "));
}

function firstChangedRow(before: string, after: string): number {
  const [old, lines] = [before.split("\n"), after.split("\n")];
  return lines.findIndex((line, i) => line !== old[i]);
}

function quoteStart(text: string): string {
  const [line = ""] = text.trim().split("\n");
  return JSON.stringify(line.length > MAX_SHOWN_CHARACTERS ? `${line.slice(0, MAX_SHOWN_CHARACTERS)}…` : line);
}
