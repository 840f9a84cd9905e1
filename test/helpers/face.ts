import path from "node:path";
import ts from "typescript";
import type { Sources } from "./architecture.js";

/** An export of a public face, and the declaration that it leads to. */
interface Export {
  name: string;
  declaration: ts.Node | undefined;
}

/** Texts that may use what a face exports. */
export interface Users {
  /** Of examples and tests. */
  programs: readonly string[];
  /** Of documents; their code counts too. */
  pages: readonly string[];
}

/** What is wrong with the exports of a face: `src/index.ts`, which programs import as `gantry`. */
export function faceFaults(face: string, specifier: string, sources: Sources, { programs, pages }: Users): string[] {
  const parsed = new Map<string, ts.SourceFile>();
  const parse = (file: string): ts.SourceFile | undefined => {
    const text = sources.get(file);
    if (!parsed.has(file) && text !== undefined)
      parsed.set(file, ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
    return parsed.get(file);
  };
  const faults: string[] = [];
  const exports: Export[] = [];
  for (const statement of parse(face)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamespaceExport(statement.exportClause)) {
      const { name } = statement.exportClause;
      exports.push({ name: name.text, declaration: statement });
      for (const [member, declaration] of exportedBy(parse(targetOf(face, statement))))
        if (sentence(declaration) === "") faults.push(`${face}: ${name.text}.${member} has no sentence above it`);
      continue;
    }
    if (!ts.isExportDeclaration(statement) || !statement.exportClause || !ts.isNamedExports(statement.exportClause)) {
      faults.push(
        `${face}: ${statement.getText().split("\n")[0]}: a face names what it exports, and does nothing else`,
      );
      continue;
    }
    for (const { name, propertyName } of statement.exportClause.elements)
      exports.push({ name: name.text, declaration: find(face, (propertyName ?? name).text, parse) });
  }
  const used = reached(exports, [...importedFrom(specifier, [...programs, ...pages]), ...mentioned(pages)]);
  for (const { name, declaration } of exports) {
    if (!declaration || sentence(declaration) === "") faults.push(`${face}: ${name} has no sentence above it`);
    if (!used.has(name)) faults.push(`${face}: ${name} is used by no document, example or test`);
  }
  return faults.sort();
}

/** The declaration that a name of a file leads to, through files that pass it on; what a package exports stays where it is passed on. */
function find(file: string, name: string, parse: (file: string) => ts.SourceFile | undefined): ts.Node | undefined {
  for (const statement of parse(file)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)) {
      const passed = statement.exportClause.elements.find((element) => element.name.text === name);
      if (!passed || !statement.moduleSpecifier || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
      if (!statement.moduleSpecifier.text.startsWith(".")) return statement;
      return find(targetOf(file, statement), (passed.propertyName ?? passed.name).text, parse);
    }
    const named = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    if (named.some((one) => "name" in one && (one.name as ts.Node | undefined)?.getText() === name)) return statement;
  }
  return undefined;
}

function targetOf(file: string, { moduleSpecifier }: ts.ExportDeclaration): string {
  const from = moduleSpecifier && ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : "";
  return path.posix.join(path.posix.dirname(file), from).replace(/\.js$/, ".ts");
}

/** What a file declares and exports, by name. */
function exportedBy(file: ts.SourceFile | undefined): [string, ts.Node][] {
  return (file?.statements ?? []).flatMap((statement): [string, ts.Node][] => {
    const exported = ts.canHaveModifiers(statement) && ts.getModifiers(statement)?.some(isExport);
    const named = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    return exported ? named.map((one) => [("name" in one && (one.name as ts.Node).getText()) || "", statement]) : [];
  });
}

function isExport({ kind }: ts.ModifierLike): boolean {
  return kind === ts.SyntaxKind.ExportKeyword;
}

function sentence(declaration: ts.Node): string {
  return ts
    .getJSDocCommentsAndTags(declaration)
    .filter(ts.isJSDoc)
    .map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "")
    .join("")
    .trim();
}

/** Names in import statements, of programs and of the code in pages. */
function importedFrom(specifier: string, texts: readonly string[]): string[] {
  return texts.flatMap((text) =>
    [...text.matchAll(/import\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"([^"]+)"/g)]
      .filter(([, , from]) => from === specifier)
      .flatMap(([, names = ""]) => names.split(",").map((name) => name.trim().split(/\s+as\s+/)[0] ?? ""))
      .map((name) => name.replace(/^type\s+/, "")),
  );
}

/** Names that a page says in code marks: `Thing`, `thing(argument)`. */
function mentioned(pages: readonly string[]): string[] {
  return pages.flatMap((text) =>
    [...text.matchAll(/`(?:new |@)?([A-Za-z]\w*)(?:[.(<][^`\n]*)?`/g)].map(([, name = ""]) => name),
  );
}

/** These exports, and those that their declarations name: whoever uses the one has the other in hands. */
function reached(exports: readonly Export[], names: readonly string[]): Set<string> {
  const byName = new Map(exports.map((one) => [one.name, one.declaration]));
  const found = new Set(names.filter((name) => byName.has(name)));
  for (const name of found) {
    const visit = (node: ts.Node): void => {
      if (ts.isBlock(node) || ((ts.isClassElement(node) || ts.isPropertyDeclaration(node)) && isPrivate(node))) return;
      if (ts.isIdentifier(node) && byName.has(node.text) && isType(node)) found.add(node.text);
      ts.forEachChild(node, visit);
    };
    const declaration = byName.get(name);
    if (declaration) visit(declaration);
  }
  return found;
}

function isPrivate(node: ts.ClassElement): boolean {
  return node.name !== undefined && ts.isPrivateIdentifier(node.name);
}

function isType({ parent }: ts.Identifier): boolean {
  return (
    ts.isTypeReferenceNode(parent) ||
    ts.isExpressionWithTypeArguments(parent) ||
    ts.isQualifiedName(parent) ||
    ts.isTypeQueryNode(parent)
  );
}
