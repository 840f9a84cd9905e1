import path from "node:path";
import ts from "typescript";
import type { Sources } from "./architecture/modules.js";

/**
 * Entry points that share one namespace: only one entry point exports a name. The client has a namespace of its own,
 * because its types describe the server's responses.
 */
export const ENTRY_POINTS = {
  gantry: "src/index.ts",
  "gantry/plugin": "src/plugin/index.ts",
  "gantry/http": "src/http/index.ts",
  "gantry/testing": "src/testing/index.ts",
};
export const CLIENT_ENTRY_POINT = { "gantry/client": "adapters/koa-http-api/client/index.ts" };

/** An export of an entry module, and its declaration. */
interface Export {
  name: string;
  entryModule: string;
  declaration: ts.Node | undefined;
}

/** Texts that may use the exports of an entry module. */
export interface ExportUsers {
  /** Texts of adapters, examples and tests. */
  programs: readonly string[];
  /** Texts of documents, including their code. */
  pages: readonly string[];
}

/**
 * Faults of the exports of entry modules, which are given by specifier: `{ gantry: "src/index.ts" }`. Each exported
 * name must have a doc comment, must be exported by only one entry module, and must be used.
 */
export function findExportFaults(
  entryModules: Readonly<Record<string, string>>,
  sources: Sources,
  users: ExportUsers,
): string[] {
  const parsedFiles = new Map<string, ts.SourceFile>();
  const parse = (file: string): ts.SourceFile | undefined => {
    const text = sources.get(file);
    if (!parsedFiles.has(file) && text !== undefined)
      parsedFiles.set(file, ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
    return parsedFiles.get(file);
  };
  const faults: string[] = [];
  const exports = new Map<string, Export>();
  for (const entryModule of Object.values(entryModules))
    for (const entry of listExports(entryModule, parse, faults)) {
      const otherExport = exports.get(entry.name);
      if (otherExport) faults.push(`${entryModule}: ${entry.name} is exported by ${otherExport.entryModule} too`);
      else exports.set(entry.name, entry);
    }
  const usedNames = followReferences(exports, listUsedNames(users, entryModules, exports));
  for (const { name, entryModule, declaration } of exports.values()) {
    if (!declaration || readDocComment(declaration) === "")
      faults.push(`${entryModule}: ${name} has no sentence above it`);
    if (!usedNames.has(name)) faults.push(`${entryModule}: ${name} is used by no adapter, document, example or test`);
  }
  return faults.sort();
}

function listExports(
  entryModule: string,
  parse: (file: string) => ts.SourceFile | undefined,
  faults: string[],
): Export[] {
  const exports: Export[] = [];
  for (const statement of parse(entryModule)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamespaceExport(statement.exportClause)) {
      const { name } = statement.exportClause;
      exports.push({ name: name.text, entryModule, declaration: statement });
      for (const [member, declaration] of listDeclarations(parse(resolveTarget(entryModule, statement))))
        if (readDocComment(declaration) === "")
          faults.push(`${entryModule}: ${name.text}.${member} has no sentence above it`);
      continue;
    }
    if (!ts.isExportDeclaration(statement) || !statement.exportClause || !ts.isNamedExports(statement.exportClause)) {
      faults.push(
        `${entryModule}: ${statement.getText().split("\n")[0]}: an entry module may only contain named exports`,
      );
      continue;
    }
    for (const { name, propertyName } of statement.exportClause.elements)
      exports.push({
        name: name.text,
        entryModule,
        declaration: findDeclaration(entryModule, (propertyName ?? name).text, parse, statement.isTypeOnly),
      });
  }
  return exports;
}

function listUsedNames(
  { programs, pages }: ExportUsers,
  entryModules: Readonly<Record<string, string>>,
  exports: ReadonlyMap<string, Export>,
): string[] {
  const importedNames = listImports([...programs, ...pages])
    .filter(({ specifier, name }) => exports.get(name)?.entryModule === entryModules[specifier])
    .map(({ name }) => name);
  return [...importedNames, ...listMentionedNames(pages)];
}

/**
 * The declaration of a name, found through re-exports; undefined if there is none. For a re-export of a package, the
 * re-export statement. With `isType`, constants are skipped, because a type and a constant may have the same name.
 */
function findDeclaration(
  file: string,
  name: string,
  parse: (file: string) => ts.SourceFile | undefined,
  isType: boolean,
): ts.Node | undefined {
  for (const statement of parse(file)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && !statement.exportClause) {
      const declaration = findDeclaration(resolveTarget(file, statement), name, parse, isType);
      if (declaration) return declaration;
      continue;
    }
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)) {
      const reexport = statement.exportClause.elements.find((element) => element.name.text === name);
      if (!reexport || !statement.moduleSpecifier || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
      if (!statement.moduleSpecifier.text.startsWith(".")) return statement;
      return findDeclaration(
        resolveTarget(file, statement),
        (reexport.propertyName ?? reexport.name).text,
        parse,
        isType,
      );
    }
    if (isType && ts.isVariableStatement(statement)) continue;
    const declarations = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    if (
      declarations.some(
        (declaration) => "name" in declaration && (declaration.name as ts.Node | undefined)?.getText() === name,
      )
    )
      return statement;
  }
  return undefined;
}

function resolveTarget(file: string, { moduleSpecifier }: ts.ExportDeclaration): string {
  const target = moduleSpecifier && ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : "";
  return path.posix.join(path.posix.dirname(file), target).replace(/\.js$/, ".ts");
}

/** Declarations that a file exports, by name. */
function listDeclarations(file: ts.SourceFile | undefined): [string, ts.Node][] {
  return (file?.statements ?? []).flatMap((statement): [string, ts.Node][] => {
    const isExported = ts.canHaveModifiers(statement) && ts.getModifiers(statement)?.some(isExportModifier);
    const declarations = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    return isExported
      ? declarations.map((declaration) => [
          ("name" in declaration && (declaration.name as ts.Node).getText()) || "",
          statement,
        ])
      : [];
  });
}

function isExportModifier({ kind }: ts.ModifierLike): boolean {
  return kind === ts.SyntaxKind.ExportKeyword;
}

function readDocComment(declaration: ts.Node): string {
  return ts
    .getJSDocCommentsAndTags(declaration)
    .filter(ts.isJSDoc)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "")
    .join("")
    .trim();
}

/** Names in import statements of programs and of code in pages, with the module that they are imported from. */
function listImports(texts: readonly string[]): { specifier: string; name: string }[] {
  return texts.flatMap((text) =>
    [...text.matchAll(/import\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"([^"]+)"/g)].flatMap(
      ([, names = "", specifier = ""]) =>
        names.split(",").map((part) => {
          const [name = ""] = part.trim().split(/\s+as\s+/);
          return { specifier, name: name.replace(/^type\s+/, "") };
        }),
    ),
  );
}

/** Names that a page mentions in back quotes: `Agent`, `createAgent(options)`. */
function listMentionedNames(pages: readonly string[]): string[] {
  return pages.flatMap((text) =>
    [...text.matchAll(/`(?:new |@)?([A-Za-z]\w*)(?:[.(<][^`\n]*)?`/g)].map(([, name = ""]) => name),
  );
}

/** The exports with these names, and the exports that their declarations refer to: code that uses a name uses both. */
function followReferences(exportsByName: ReadonlyMap<string, Export>, names: readonly string[]): Set<string> {
  const reachedNames = new Set(names.filter((name) => exportsByName.has(name)));
  for (const name of reachedNames) {
    const visit = (node: ts.Node): void => {
      if (ts.isBlock(node) || ((ts.isClassElement(node) || ts.isPropertyDeclaration(node)) && isPrivate(node))) return;
      if (ts.isIdentifier(node) && exportsByName.has(node.text) && isTypeReference(node)) reachedNames.add(node.text);
      ts.forEachChild(node, visit);
    };
    const declaration = exportsByName.get(name)?.declaration;
    if (declaration) visit(declaration);
  }
  return reachedNames;
}

function isPrivate(node: ts.ClassElement): boolean {
  return node.name !== undefined && ts.isPrivateIdentifier(node.name);
}

function isTypeReference({ parent }: ts.Identifier): boolean {
  return (
    ts.isTypeReferenceNode(parent) ||
    ts.isExpressionWithTypeArguments(parent) ||
    ts.isQualifiedName(parent) ||
    ts.isTypeQueryNode(parent)
  );
}
