import path from "node:path";
import ts from "typescript";

/** Source text by path relative to the repository's root, with `/`. */
export type Sources = ReadonlyMap<string, string>;

interface Import {
  specifier: string;
  /** Type-only import: the compiler removes it, so it has no effect at run time. */
  isTypeOnly: boolean;
  /** An `import()`, which loads the file when the line runs. */
  isDynamic: boolean;
  /** Imported file of the repository; undefined for packages. */
  target: string | undefined;
}

/** A parsed source file. */
export interface Module {
  file: string;
  ast: ts.SourceFile;
  imports: Import[];
}

/** Parses sources. This takes seconds for all sources, so checks of the same sources share the result. */
export function parseSources(sources: Sources): Map<string, Module> {
  return new Map([...sources].map(([file, text]) => [file, parse(file, text, sources)]));
}

function parse(file: string, text: string, sources: Sources): Module {
  const ast = ts.createSourceFile(
    file,
    text,
    ts.ScriptTarget.Latest,
    true,
    file.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
  );
  const imports: Import[] = [];
  const addImport = (specifier: ts.Node | undefined, isTypeOnly: boolean, isDynamic: boolean): void => {
    if (!specifier || !ts.isStringLiteralLike(specifier)) return;
    imports.push({
      specifier: specifier.text,
      isTypeOnly,
      isDynamic,
      target: resolveImport(file, specifier.text, sources),
    });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      addImport(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword, false);
    } else if (ts.isExportDeclaration(node)) addImport(node.moduleSpecifier, node.isTypeOnly, false);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      addImport(node.arguments[0], false, true);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      addImport(node.argument.literal, true, false);
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return { file, ast, imports };
}

function resolveImport(importingFile: string, specifier: string, sources: Sources): string | undefined {
  let target: string;
  if (specifier.startsWith("."))
    target = path.posix.join(path.posix.dirname(importingFile), specifier).replace(/\.js$/, ".ts");
  else if (specifier === "gantry") target = "src/index.ts";
  else if (specifier === "gantry/plugin") target = "src/plugin/index.ts";
  else if (specifier === "gantry/http") target = "src/http/index.ts";
  else if (specifier === "gantry/testing") target = "src/testing/index.ts";
  else if (specifier === "gantry/client") target = "adapters/koa-http-api/client/index.ts";
  else if (specifier.startsWith("gantry/adapters/")) target = `${specifier.slice("gantry/".length)}/index.ts`;
  else return undefined;
  if (!sources.has(target) && sources.has(`${target}x`)) target = `${target}x`;
  return sources.has(target) || specifier.startsWith(".") ? target : undefined;
}
