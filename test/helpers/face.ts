import path from "node:path";
import ts from "typescript";
import type { Sources } from "./architecture.js";

/** An export of a public face, and the declaration that it leads to. */
interface Export {
  name: string;
  face: string;
  declaration: ts.Node | undefined;
}

/** Texts that may use what a face exports. */
export interface Users {
  /** Texts of adapters, examples and tests. */
  programs: readonly string[];
  /** Of documents; their code counts too. */
  pages: readonly string[];
}

/**
 * What is wrong with the exports of faces that are one body of names: `{ gantry: "src/index.ts" }`. Each name is explained,
 * exported by one of them, and used.
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
    for (const one of exportsOf(face, parse, faults)) {
      const other = exports.get(one.name);
      if (other) faults.push(`${face}: ${one.name} is exported by ${other.face} too`);
      else exports.set(one.name, one);
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
 * The declaration that a name of a file leads to, through files that pass it on; what a package exports stays where it is
 * passed on. A type may share its name with a constant.
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
function reached(byName: ReadonlyMap<string, Export>, names: readonly string[]): Set<string> {
  const found = new Set(names.filter((name) => byName.has(name)));
  for (const name of found) {
    const visit = (node: ts.Node): void => {
      if (ts.isBlock(node) || ((ts.isClassElement(node) || ts.isPropertyDeclaration(node)) && isPrivate(node))) return;
      if (ts.isIdentifier(node) && byName.has(node.text) && isType(node)) found.add(node.text);
      ts.forEachChild(node, visit);
    };
    const declaration = byName.get(name)?.declaration;
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
