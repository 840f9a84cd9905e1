import path from "node:path";
import ts from "typescript";
import type { Sources } from "./architecture.js";

/** An export of an entry module, and its declaration. */
interface Export {
  name: string;
  face: string;
  declaration: ts.Node | undefined;
}

/** Texts that may use the exports of an entry module. */
export interface Users {
  /** Texts of adapters, examples and tests. */
  programs: readonly string[];
  /** Texts of documents, including their code. */
  pages: readonly string[];
}

/**
 * Problems of the exports of the entry modules (faces) in `{ gantry: "src/index.ts" }`. Each name must have a doc
 * comment, must be exported by only one of them, and must be used.
 */
export function faceFaults(faces: Readonly<Record<string, string>>, sources: Sources, users: Users): string[] {
  const parsed = new Map<string, ts.SourceFile>();
  const parse = (file: string): ts.SourceFile | undefined => {
    const text = sources.get(file);
    if (!parsed.has(file) && text !== undefined)
      parsed.set(file, ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
    return parsed.get(file);
  };
  const faults: string[] = [];
  const exports = new Map<string, Export>();
  for (const face of Object.values(faces))
    for (const entry of exportsOf(face, parse, faults)) {
      const existing = exports.get(entry.name);
      if (existing) faults.push(`${face}: ${entry.name} is exported by ${existing.face} too`);
      else exports.set(entry.name, entry);
    }
  const used = reached(exports, usedBy(users, faces, exports));
  for (const { name, face, declaration } of exports.values()) {
    if (!declaration || sentence(declaration) === "") faults.push(`${face}: ${name} has no sentence above it`);
    if (!used.has(name)) faults.push(`${face}: ${name} is used by no adapter, document, example or test`);
  }
  return faults.sort();
}

function exportsOf(face: string, parse: (file: string) => ts.SourceFile | undefined, faults: string[]): Export[] {
  const exports: Export[] = [];
  for (const statement of parse(face)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamespaceExport(statement.exportClause)) {
      const { name } = statement.exportClause;
      exports.push({ name: name.text, face, declaration: statement });
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
      exports.push({
        name: name.text,
        face,
        declaration: find(face, (propertyName ?? name).text, parse, statement.isTypeOnly),
      });
  }
  return exports;
}

function usedBy(
  { programs, pages }: Users,
  faces: Readonly<Record<string, string>>,
  exports: ReadonlyMap<string, Export>,
): string[] {
  const imported = Object.entries(faces).flatMap(([specifier, face]) =>
    importedFrom(specifier, [...programs, ...pages]).filter((name) => exports.get(name)?.face === face),
  );
  return [...imported, ...mentioned(pages)];
}

/**
 * The declaration of a name, found through re-exports. A re-export of a package counts as its declaration. A type may
 * have the same name as a constant.
 */
function find(
  file: string,
  name: string,
  parse: (file: string) => ts.SourceFile | undefined,
  isType: boolean,
): ts.Node | undefined {
  for (const statement of parse(file)?.statements ?? []) {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)) {
      const passed = statement.exportClause.elements.find((element) => element.name.text === name);
      if (!passed || !statement.moduleSpecifier || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
      if (!statement.moduleSpecifier.text.startsWith(".")) return statement;
      return find(targetOf(file, statement), (passed.propertyName ?? passed.name).text, parse, isType);
    }
    if (isType && ts.isVariableStatement(statement)) continue;
    const named = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    if (
      named.some(
        (declaration) => "name" in declaration && (declaration.name as ts.Node | undefined)?.getText() === name,
      )
    )
      return statement;
  }
  return undefined;
}

function targetOf(file: string, { moduleSpecifier }: ts.ExportDeclaration): string {
  const from = moduleSpecifier && ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : "";
  return path.posix.join(path.posix.dirname(file), from).replace(/\.js$/, ".ts");
}

/** Declarations that a file exports, by name. */
function exportedBy(file: ts.SourceFile | undefined): [string, ts.Node][] {
  return (file?.statements ?? []).flatMap((statement): [string, ts.Node][] => {
    const exported = ts.canHaveModifiers(statement) && ts.getModifiers(statement)?.some(isExport);
    const named = ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [statement];
    return exported
      ? named.map((declaration) => [
          ("name" in declaration && (declaration.name as ts.Node).getText()) || "",
          statement,
        ])
      : [];
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

/** Names in import statements of programs and of code in pages. */
function importedFrom(specifier: string, texts: readonly string[]): string[] {
  return texts.flatMap((text) =>
    [...text.matchAll(/import\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"([^"]+)"/g)]
      .filter(([, , from]) => from === specifier)
      .flatMap(([, names = ""]) => names.split(",").map((name) => name.trim().split(/\s+as\s+/)[0] ?? ""))
      .map((name) => name.replace(/^type\s+/, "")),
  );
}

/** Names that a page mentions in code marks: `Thing`, `thing(argument)`. */
function mentioned(pages: readonly string[]): string[] {
  return pages.flatMap((text) =>
    [...text.matchAll(/`(?:new |@)?([A-Za-z]\w*)(?:[.(<][^`\n]*)?`/g)].map(([, name = ""]) => name),
  );
}

/** The given exports, and those that their declarations refer to: users of the former also use the latter. */
function reached(byName: ReadonlyMap<string, Export>, names: readonly string[]): Set<string> {
  const reachedNames = new Set(names.filter((name) => byName.has(name)));
  for (const name of reachedNames) {
    const visit = (node: ts.Node): void => {
      if (ts.isBlock(node) || ((ts.isClassElement(node) || ts.isPropertyDeclaration(node)) && isPrivate(node))) return;
      if (ts.isIdentifier(node) && byName.has(node.text) && isType(node)) reachedNames.add(node.text);
      ts.forEachChild(node, visit);
    };
    const declaration = byName.get(name)?.declaration;
    if (declaration) visit(declaration);
  }
  return reachedNames;
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
