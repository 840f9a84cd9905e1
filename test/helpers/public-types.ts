import path from "node:path";
import ts from "typescript";

/** Collects the types that the declarations of exports refer to and that no entry module exports. */
class TypeCollector {
  /** Name of an export that refers to the type, by the type's symbol. */
  readonly unexportedTypes = new Map<ts.Symbol, string>();
  readonly #checker: ts.TypeChecker;
  readonly #exportedSymbols: ReadonlySet<ts.Symbol>;
  readonly #visitedIntermediateTypes = new Set<ts.Symbol>();
  #exportName = "";

  constructor(checker: ts.TypeChecker, exportedSymbols: ReadonlySet<ts.Symbol>) {
    this.#checker = checker;
    this.#exportedSymbols = exportedSymbols;
  }

  /** `isTypeOnly`: the class is exported only as a type, so its constructor is ignored. */
  collect(symbol: ts.Symbol, isTypeOnly: boolean): void {
    this.#exportName = symbol.name;
    for (const declaration of symbol.declarations ?? [])
      if (isRepositoryFile(declaration) && !ts.isSourceFile(declaration)) this.#visit(declaration, isTypeOnly);
  }

  readonly #visit = (node: ts.Node, isTypeOnly = false): void => {
    if (ts.isBlock(node) || isHidden(node) || (isTypeOnly && ts.isConstructorDeclaration(node))) return;
    if (ts.isTypeReferenceNode(node)) this.#addSymbol(this.#checker.getSymbolAtLocation(node.typeName));
    if (ts.isExpressionWithTypeArguments(node)) this.#addSymbol(this.#checker.getSymbolAtLocation(node.expression));
    else if (ts.isExpression(node)) return;
    if (hasInferredType(node)) this.#addInferredType(node);
    ts.forEachChild(node, (child) => this.#visit(child, isTypeOnly));
  };

  #addInferredType(node: ts.SignatureDeclaration | ts.VariableDeclaration | ts.PropertyDeclaration): void {
    const type = ts.isFunctionLike(node)
      ? this.#checker.getSignatureFromDeclaration(node)?.getReturnType()
      : this.#checker.getTypeAtLocation(node);
    if (type) this.#addType(type, new Set());
  }

  #addType(type: ts.Type, visitedTypes: Set<ts.Type>): void {
    if (visitedTypes.has(type)) return;
    visitedTypes.add(type);
    if (type.aliasSymbol) this.#addSymbol(type.aliasSymbol);
    else if (type.isClassOrInterface()) this.#addSymbol(type.symbol);
    else if (type.isUnionOrIntersection()) for (const part of type.types) this.#addType(part, visitedTypes);
    for (const argument of type.aliasTypeArguments ?? this.#checker.getTypeArguments(type as ts.TypeReference))
      this.#addType(argument, visitedTypes);
  }

  #addSymbol(referencedSymbol: ts.Symbol | undefined): void {
    const symbol = referencedSymbol && resolveAlias(this.#checker, referencedSymbol);
    const [declaration] = symbol?.declarations ?? [];
    if (!symbol || !declaration || !isRepositoryFile(declaration) || ts.isTypeParameterDeclaration(declaration)) return;
    if (this.#exportedSymbols.has(symbol)) return;
    // A part of a computed type. The compiler inlines this part, and users have no use for its name.
    const isIntermediateType =
      ts.isTypeAliasDeclaration(declaration) && declaration.typeParameters && !isExported(declaration);
    if (!isIntermediateType) this.unexportedTypes.set(symbol, this.#exportName);
    else if (!this.#visitedIntermediateTypes.has(symbol)) {
      this.#visitedIntermediateTypes.add(symbol);
      this.#visit(declaration);
    }
  }
}

/** Files with everything that they import, and their type checker. */
interface EntryProgram {
  root: string;
  program: ts.Program;
  checker: ts.TypeChecker;
}

interface EntryExports extends EntryProgram {
  exports: readonly (readonly [symbol: ts.Symbol, isTypeOnly: boolean])[];
}

/** Parses files and their imports. This takes seconds, so checks of several entry points share one program. */
export function createEntryProgram(root: string, files: readonly string[]): EntryProgram {
  const config = ts.readConfigFile(path.join(root, "tsconfig.json"), (file) => ts.sys.readFile(file)).config as unknown;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const names = files.map((file) => path.join(root, file));
  const program = ts.createProgram(names, { ...options, exactOptionalPropertyTypes: true });
  return { root, program, checker: program.getTypeChecker() };
}

/** The exports of files, which are in the program. */
export function readEntryExports(entryProgram: EntryProgram, files: readonly string[]): EntryExports {
  const { root, program, checker } = entryProgram;
  const exports: [symbol: ts.Symbol, isTypeOnly: boolean][] = [];
  for (const name of files) {
    const file = program.getSourceFile(path.join(root, name));
    const module = file && checker.getSymbolAtLocation(file);
    if (!module) throw new Error(`${name} is no module of the program`);
    for (const exportSymbol of checker.getExportsOfModule(module)) {
      const symbol = resolveAlias(checker, exportSymbol);
      exports.push([symbol, (exportSymbol.declarations ?? []).some(ts.isTypeOnlyExportDeclaration)]);
      if (symbol.flags & ts.SymbolFlags.ValueModule)
        for (const member of checker.getExportsOfModule(symbol)) exports.push([resolveAlias(checker, member), false]);
    }
  }
  return { ...entryProgram, exports };
}

/** Types that an exported signature refers to and no entry module exports: `type (file), of export`. */
export function findUnexportedTypes({ root, checker, exports }: EntryExports): string[] {
  const exportedSymbols = new Set(exports.flatMap(([symbol]) => [symbol, ...findAliasTargets(checker, symbol)]));
  const collector = new TypeCollector(checker, exportedSymbols);
  for (const [symbol, isTypeOnly] of exports) collector.collect(symbol, isTypeOnly);
  const readPath = ({ declarations: [firstDeclaration] = [] }: ts.Symbol): string =>
    firstDeclaration ? path.relative(root, firstDeclaration.getSourceFile().fileName).split(path.sep).join("/") : "";
  return [...collector.unexportedTypes]
    .map(([symbol, exportName]) => `${symbol.name} (${readPath(symbol)}), of ${exportName}`)
    .sort();
}

/** Names of input types, whose objects a user with `exactOptionalPropertyTypes` creates. */
const INPUT_TYPES =
  /(Options|Input|Definition|Query|Budget|Fixture|Hooks|Program|Address|Rule)$|^(NewSession|HttpMount|Model|ModelUsage|Refusal|ToolOutput)$/;
/** Inputs that a driver receives from the kernel. */
const DRIVER_PORT_FILE = /\/ports\/session-(driver|queries|change)\.ts$/;

/** Optional input fields that do not accept `undefined`, as `Type.field`. */
export function findFieldsWithoutUndefined({ checker, exports }: EntryExports): string[] {
  const faults = new Set<string>();
  const visit = (type: ts.Type, name: string): void => {
    for (const field of checker.getPropertiesOfType(type)) {
      const [declaration] = field.declarations ?? [];
      if (!declaration || !isRepositoryFile(declaration) || DRIVER_PORT_FILE.test(declaration.getSourceFile().fileName))
        continue;
      const fieldType = checker.getTypeOfSymbol(field);
      const parts = fieldType.isUnion() ? fieldType.types : [fieldType];
      // The type of a missing field differs from the normal undefined type.
      const acceptsUndefined = parts.some(
        (part) => part === checker.getUndefinedType() || part.flags & ts.TypeFlags.Unknown,
      );
      if (field.flags & ts.SymbolFlags.Optional && !acceptsUndefined) faults.add(`${name}.${field.name}`);
      for (const part of parts)
        if (part.symbol?.flags & ts.SymbolFlags.TypeLiteral && part.getCallSignatures().length === 0)
          visit(part, `${name}.${field.name}`);
    }
  };
  for (const [symbol] of exports)
    if (INPUT_TYPES.test(symbol.name) && symbol.flags & ts.SymbolFlags.Type)
      visit(checker.getDeclaredTypeOfSymbol(symbol), symbol.name);
  return [...faults].sort();
}

/** The type that an alias renames without any change; empty for other aliases. */
function findAliasTargets(checker: ts.TypeChecker, { declarations: [alias] = [] }: ts.Symbol): ts.Symbol[] {
  if (!alias || !ts.isTypeAliasDeclaration(alias) || !ts.isTypeReferenceNode(alias.type)) return [];
  const symbol = checker.getSymbolAtLocation(alias.type.typeName);
  return symbol && !alias.type.typeArguments ? [resolveAlias(checker, symbol)] : [];
}

function resolveAlias(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function isRepositoryFile(node: ts.Node): boolean {
  return !node.getSourceFile().fileName.includes("/node_modules/");
}

function isExported(node: ts.Declaration): boolean {
  return (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Export) !== 0;
}

/** Whether a member is private, or marked `@internal`: declaration files omit such members. */
function isHidden(node: ts.Node): boolean {
  if (!ts.isClassElement(node) && !ts.isTypeElement(node)) return false;
  const isPrivate = (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Private) !== 0;
  const isInternal = ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal");
  return isPrivate || isInternal || (node.name !== undefined && ts.isPrivateIdentifier(node.name));
}

function hasInferredType(
  node: ts.Node,
): node is ts.SignatureDeclaration | ts.VariableDeclaration | ts.PropertyDeclaration {
  const hasType = ts.isFunctionLike(node) || ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node);
  return hasType && !ts.isConstructorDeclaration(node) && node.type === undefined;
}
