import ts from "typescript";

/** A longer function usually has two reasons to change. */
export const MAX_FUNCTION_LINES = 60;

/** Returns the functions without JSX that are too long, as `file:line lines`. The nodes of `ast` know their parents. */
export function findLongFunctions(file: string, ast: ts.SourceFile): string[] {
  const lineOf = (position: number): number => ast.getLineAndCharacterOfPosition(position).line;
  const longFunctions: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node)) {
      const firstLine = lineOf(node.getStart());
      const lines = lineOf(node.end) - firstLine + 1;
      if (lines > MAX_FUNCTION_LINES && !containsJsx(node))
        longFunctions.push(`${file}:${firstLine + 1} ${lines} lines`);
    }
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return longFunctions;
}

function containsJsx(node: ts.Node): boolean {
  return (
    ts.isJsxElement(node) ||
    ts.isJsxSelfClosingElement(node) ||
    ts.isJsxFragment(node) ||
    ts.forEachChild(node, containsJsx) === true
  );
}
