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

/** Files of src that implement HTTP for the transports. */
/** The second listens only on Unix sockets in private folders. */
const HTTP_LISTENERS = new Set(["src/http/http-host.ts", "src/http/filtering-proxy.ts"]);
const HTTP_FILES = /^src\/http\//;

/**
 * Modules of src, from the highest layer down. An import stays in its module or goes down this list. The folders of
 * `src/run` are separate modules: they never import the files of `src/run` itself.
 */
const MODULES: readonly (readonly [name: string, pattern: RegExp])[] = [
  ...["cli", "serve", "testing"].map(createFolderModule),
  ["index.ts", /^src\/index\.ts$/],
  ...["plugin", "agent"].map(createFolderModule),
  ["run", /^src\/run\/[^/]+$/],
  ...["calls", "context", "prompt", "permissions", "queue", "tools", "budget", "input"].map((name) =>
    createFolderModule(`run/${name}`),
  ),
  ...["watch", "compaction", "memory-driver", "worktrees", "sessions", "models", "conversation", "history"].map(
    createFolderModule,
  ),
  ...["tools", "project", "untrusted", "processes", "http", "files", "base", "ports"].map(createFolderModule),
];

function createFolderModule(name: string): readonly [string, RegExp] {
  return [name, new RegExp(`^src/${name}/`)];
}

/** Index of the file's module; -1 if it is in none. */
function findLayer(file: string): number {
  return MODULES.findIndex(([, pattern]) => pattern.test(file));
}
const CONTAINER_PACKAGES = new Set(["tsyringe", "reflect-metadata"]);
const CONTAINER_FILES = /^src\/(plugin|serve)\//;
/** Only these files load adapters, and only when needed. */
const ADAPTER_LOADERS = new Set(["selected-adapters", "plugins", "inspections"].map((name) => `src/serve/${name}.ts`));
/** The terminal is not part of an agent. Only the chat command loads the terminal, by its public name. */
const CHAT_COMMAND = "src/cli/chat.ts";
const TERMINAL_MODULE = "gantry/adapters/terminal";
/** User interfaces import only the client. */
const USER_INTERFACES = /^adapters\/(terminal|web-console\/app)\//;
/** Code that works on a project's files. Only src/files/path-guard.ts opens paths, and checks each opened file. */
const PROJECT_FILE_USERS =
  /^src\/(tools\/|project\/|untrusted\/|files\/attachments\.ts$|history\/(plan|restore)\.ts$|run\/)/;
/** Exceptions that access the system and not the project: the sandbox, processes. */
const SYSTEM_FILE_USERS = /^src\/tools\/(shell\/sandbox\/|shell\/shell-command|files\/checks\/quick-command)/;
const WIRE_WORDS = new Set(
  (
    "session_id parent_id created_at updated_at tool_call_id tool_args tool_output tool_name agent_id agent_name finish_reason " +
    "prompt_tokens completion_tokens total_tokens sessionUpdate jsonrpc stopReason statusCode writeHead setHeader " +
    "Acp-Connection-Id Acp-Session-Id X-Session-Id text/event-stream session/update session/prompt session/new"
  ).split(" "),
);
/**
 * Receives bytes of a model provider under limits. No other code of adapters/language-models sends requests. The module
 * also reads proxy settings from the environment, as every HTTP client does.
 */
const PROVIDER_CONNECTIONS = "adapters/language-models/connections.ts";
/**
 * Files that may read process.env: the reader for all other code, the redactor of secrets, and HTTP clients, which read
 * proxy settings.
 */
const ENVIRONMENT_READERS = new Set([
  // main.ts needs the folder of compiled code before it loads a module.
  "src/cli/main.ts",
  "src/serve/environment.ts",
  "src/base/process-secrets.ts",
  // Third-party programs use the client without gantry's config.
  "adapters/koa-http-api/client/person-token.ts",
  PROVIDER_CONNECTIONS,
]);
const PROVIDER_BODY_READER = "adapters/language-models/bodies.ts";
/** The tool that fetches pages, under its own limits, and the terminal's connection to the user's own server. */
const PAGE_READERS = /^src\/(tools\/web\/|cli\/server-check\.ts$)/;
const BODY_READ_METHODS = new Set(["text", "json", "arrayBuffer", "blob", "bytes", "formData"]);
/** Packages that must not be loaded before the server listens: each costs more than the kernel. */
const HEAVY_PACKAGES =
  /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|lowdb$|lowdb\/|@pydantic\/|jsonc-parser$|import-meta-resolve$|typescript$|esbuild$)/;
/** Packages that an adapter may not load at its start. The others are permitted, because the adapter was chosen. */
const HEAVY_ADAPTER_PACKAGES = /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|@pydantic\/)/;

/** `gantry/client` runs in browsers: it imports no other code at run time. */
const CLIENT_FILES = /^adapters\/koa-http-api\/client\//;
/** The client may import types of this file, which the compiler removes. */
const SHAPES_FILE = "adapters/koa-http-api/shapes.ts";

/**
 * Code that processes untrusted input. Other modules may import only the module that starts its workers; the rest runs
 * in a thread with limits.
 */
const UNTRUSTED_FILES = /^src\/untrusted\//;
const WORKER_STARTER = "src/untrusted/workers.ts";
/** Source code of a thread as text: importing it runs nothing. */
const WORKER_CODE_FILE = "src/untrusted/worker-code.ts";
/** Parsers of third-party content. */
const UNTRUSTED_CONTENT_PARSERS = /^htmlparser2(\/|$)/;
/** May compile expressions from the user's own config: protected paths, secrets. */
const TRUSTED_EXPRESSION_FILES = new Set(["src/files/protection.ts"]);
/** Threads of src have limits; adapters manage their own threads. */
const THREAD_MODULES = /^(node:)?worker_threads$/;

/** Parses sources. This takes seconds for all sources, so checks of the same sources share the result. */
export function parseSources(sources: Sources): Map<string, Module> {
  return new Map([...sources].map(([file, text]) => [file, parse(file, text, sources)]));
}

/** Returns every violation as `file: message`. Only the rules of the start path ignore type-only imports. */
export function findArchitectureFaults(modules: ReadonlyMap<string, Module>): string[] {
  const faults: string[] = [];
  for (const module of modules.values()) {
    if (module.file.startsWith("src/") && findLayer(module.file) === -1) faults.push(`${module.file}: is in no module`);
    faults.push(...findImportFaults(module), ...findUsageFaults(module), ...findPathFaults(module));
  }
  faults.push(...findImportCycles(modules), ...findStartFaults(modules), ...findRepeatedTypeNames(modules));
  return faults.sort();
}

/** Exported types that another file also declares. A reader who sees the name alone cannot tell which one is meant. */
function findRepeatedTypeNames(modules: ReadonlyMap<string, Module>): string[] {
  const filesByName = new Map<string, string[]>();
  for (const { file, ast } of modules.values()) {
    for (const node of ast.statements) {
      if (!ts.isInterfaceDeclaration(node) && !ts.isTypeAliasDeclaration(node) && !ts.isClassDeclaration(node))
        continue;
      if (!node.name || !node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
      filesByName.set(node.name.text, [...(filesByName.get(node.name.text) ?? []), file]);
    }
  }
  return [...filesByName].flatMap(([name, [firstFile, ...laterFiles]]) =>
    laterFiles.map((file) => `${file}: declares the type ${name}, which ${firstFile} also declares`),
  );
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

function findImportFaults({ file, imports }: Module): string[] {
  const faults: string[] = [];
  const addFault = (message: string): void => void faults.push(`${file}: ${message}`);
  for (const { specifier, target, isTypeOnly, isDynamic } of imports) {
    if (CONTAINER_PACKAGES.has(specifier) && !CONTAINER_FILES.test(file) && !file.startsWith("test/")) {
      addFault(`imports ${specifier}; only src/plugin and src/serve may`);
    }
    if (!isTypeOnly && /^(src|adapters)\//.test(file)) {
      if (UNTRUSTED_CONTENT_PARSERS.test(specifier) && !UNTRUSTED_FILES.test(file))
        addFault(`imports ${specifier}; foreign input is parsed in src/untrusted, in a thread with limits`);
      if (THREAD_MODULES.test(specifier) && file.startsWith("src/") && !UNTRUSTED_FILES.test(file))
        addFault(`imports ${specifier}; threads are started in ${WORKER_STARTER}, with limits`);
      const isUntrustedCode = (UNTRUSTED_FILES.test(file) && file !== WORKER_STARTER) || target === WORKER_CODE_FILE;
      if (target !== undefined && UNTRUSTED_FILES.test(target) && target !== WORKER_STARTER && !isUntrustedCode)
        addFault(`imports ${target}, which runs in a thread alone; ask it through ${WORKER_STARTER}`);
      if (target !== undefined && /(^|[-/])worker\.ts$/.test(target))
        addFault(`imports ${target}, the start of a thread`);
    }
    if (file.startsWith("src/")) {
      if (target?.startsWith("adapters/")) {
        if (file === CHAT_COMMAND && specifier === TERMINAL_MODULE && (isDynamic || isTypeOnly)) continue;
        if (ADAPTER_LOADERS.has(file) && (isDynamic || isTypeOnly)) continue;
        addFault(`imports the adapter ${target}; only ${[...ADAPTER_LOADERS].join(", ")} may, by import()`);
      } else if (target?.startsWith("src/")) {
        const [importerLayer, targetLayer] = [findLayer(file), findLayer(target)];
        if (targetLayer < importerLayer && targetLayer !== -1)
          addFault(`${MODULES[importerLayer]?.[0]} imports ${target} of a higher layer (${MODULES[targetLayer]?.[0]})`);
      } else if (target !== undefined && !/^package\.json$/.test(target)) addFault(`imports ${target}, outside src`);
      if (specifier.startsWith("gantry") && !file.startsWith("src/testing/"))
        addFault("imports its own package by name");
    } else if (file.startsWith("adapters/")) {
      const adapterFolder = file.split("/").slice(0, 2).join("/");
      if (CLIENT_FILES.test(file) && !(target && CLIENT_FILES.test(target)) && !(isTypeOnly && target === SHAPES_FILE))
        addFault(`imports ${specifier}; the client runs in browsers, and has types of ${SHAPES_FILE} alone`);
      if (specifier.startsWith(".")) {
        const isSharedAcp = /^adapters\/acp-(?!shared)/.test(file) && target?.startsWith("adapters/acp-shared/");
        if (!target?.startsWith(`${adapterFolder}/`) && !isSharedAcp)
          addFault(`imports ${String(target)}, outside its own folder`);
      } else if (USER_INTERFACES.test(file)) {
        if (/^gantry(\/|$)/.test(specifier) && specifier !== "gantry/client")
          addFault(`imports ${specifier}; user interfaces are built on "gantry/client" alone`);
      } else if (specifier.startsWith("gantry/") && !/^gantry\/(plugin|http|client)$/.test(specifier))
        addFault(
          `imports ${specifier}; adapters import "gantry", "gantry/plugin", "gantry/http" and "gantry/client" alone`,
        );
    } else if (file.startsWith("examples/")) {
      if (!/^(gantry(\/|$)|node:)/.test(specifier)) addFault(`imports ${specifier}; examples import "gantry" alone`);
    }
  }
  return faults;
}

/** Finds imports of `fs` in code that must open project paths through the path guard. */
function findPathFaults({ file, ast }: Module): string[] {
  if (!PROJECT_FILE_USERS.test(file) || SYSTEM_FILE_USERS.test(file)) return [];
  const faults: string[] = [];
  const visit = (node: ts.Node): void => {
    const moduleSpecifier =
      ts.isImportDeclaration(node) && node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword
        ? node.moduleSpecifier
        : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
          ? node.arguments[0]
          : undefined;
    if (
      moduleSpecifier &&
      ts.isStringLiteralLike(moduleSpecifier) &&
      /^(node:)?fs(\/promises)?$/.test(moduleSpecifier.text)
    ) {
      const bindings = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : undefined;
      const names =
        bindings && ts.isNamedImports(bindings)
          ? bindings.elements
              .filter((element) => !element.isTypeOnly)
              .map((element) => (element.propertyName ?? element.name).text)
          : ["all of it"];
      if (names.length > 0)
        faults.push(
          `${file}: takes ${names.join(", ")} from ${moduleSpecifier.text}; src/files/path-guard.ts opens paths`,
        );
    }
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return faults;
}

function findUsageFaults({ file, ast }: Module): string[] {
  const faults: string[] = [];
  if (!/^(src|adapters)\//.test(file)) return faults;
  const addFault = (node: ts.Node, message: string): void => {
    faults.push(`${file}: ${message} (line ${ast.getLineAndCharacterOfPosition(node.getStart()).line + 1})`);
  };
  const isKernel = file.startsWith("src/") && !HTTP_FILES.test(file);
  const visit = (node: ts.Node): void => {
    if (!ENVIRONMENT_READERS.has(file) && readsEnvironment(node))
      addFault(node, "reads process.env; only src/serve/environment.ts may");
    if (file !== "src/cli/main.ts" && ts.isIdentifier(node) && node.text === "console" && isReference(node)) {
      addFault(node, "uses console; only src/cli/main.ts may");
    }
    if (isKernel && (ts.isStringLiteralLike(node) || ts.isIdentifier(node)) && WIRE_WORDS.has(node.text)) {
      addFault(node, `wire word ${node.text}; it belongs to an adapter`);
    }
    const requestFault = findRequestFault(file, node);
    if (requestFault !== undefined) addFault(node, requestFault);
    if (
      file.startsWith("src/") &&
      !UNTRUSTED_FILES.test(file) &&
      !TRUSTED_EXPRESSION_FILES.has(file) &&
      compilesExpression(node)
    ) {
      addFault(
        node,
        "makes a regular expression of a value; those of others run in src/untrusted, in a thread with limits",
      );
    }
    if (!HTTP_LISTENERS.has(file) && opensHttpPort(node))
      addFault(node, "opens an HTTP port; only src/http/http-host.ts may");
    if (file !== "src/http/body.ts" && readsBody(node))
      addFault(node, "reads a request's body; only src/http/body.ts may, or a parser of what its rechunkBody gives");
    const isDefault =
      (ts.isExportAssignment(node) && !node.isExportEquals) ||
      (ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword)) ||
      (ts.isExportSpecifier(node) && node.name.text === "default");
    if (isDefault && !/^adapters\/[^/]+\/index\.ts$/.test(file)) addFault(node, "default export");
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return faults;
}

/** Finds requests to other servers, and whole-body reads, outside the modules that apply limits to them. */
function findRequestFault(file: string, node: ts.Node): string | undefined {
  if (PAGE_READERS.test(file) || !/^(src|adapters\/language-models)\//.test(file)) return undefined;
  const requestMessage = `asks another server by itself; only ${PROVIDER_CONNECTIONS} may`;
  const clientModules = file.startsWith("src/") ? /^undici$/ : /^(undici|(node:)?(https?|http2|net|tls))$/;
  if (file !== PROVIDER_CONNECTIONS) {
    if (ts.isImportDeclaration(node) && clientModules.test((node.moduleSpecifier as ts.StringLiteral).text)) {
      if (node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword) return requestMessage;
    }
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier && ts.isStringLiteralLike(specifier) && clientModules.test(specifier.text)) return requestMessage;
    }
    if (ts.isIdentifier(node) && node.text === "fetch" && isGlobalFetch(node)) return requestMessage;
  }
  if (file === PROVIDER_BODY_READER || !ts.isCallExpression(node) || node.arguments.length > 0) return undefined;
  const { expression } = node;
  // Functions of the testing kit have names like methods of a body.
  if (!ts.isPropertyAccessExpression(expression) || file.startsWith("src/testing/")) return undefined;
  if (!BODY_READ_METHODS.has(expression.name.text)) return undefined;
  // The kernel has methods with the same names, which are never awaited.
  if (file.startsWith("src/") && !ts.isAwaitExpression(node.parent)) return undefined;
  return `reads a body whole; only ${PROVIDER_BODY_READER} may`;
}

/**
 * Whether `fetch` is the global function: called without a local declaration, or taken from `globalThis`. A use in a
 * type is no call.
 */
function isGlobalFetch(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent))
    return parent.name === node && parent.expression.getText() === "globalThis";
  if (!ts.isCallExpression(parent) || parent.expression !== node) return false;
  for (let scope: ts.Node | undefined = parent; scope; scope = scope.parent) {
    if (ts.isFunctionLike(scope) && scope.parameters.some(({ name }) => name.getText() === "fetch")) return false;
    if (ts.isBlock(scope) || ts.isSourceFile(scope)) {
      const isDeclared = scope.statements.some(
        (statement) =>
          ts.isVariableStatement(statement) &&
          statement.declarationList.declarations.some(({ name }) => /\bfetch\b/.test(name.getText())),
      );
      if (isDeclared) return false;
    }
  }
  return true;
}

/** Whether a node calls `RegExp` with an argument other than a string literal. */
function compilesExpression(node: ts.Node): boolean {
  if (!ts.isNewExpression(node) && !ts.isCallExpression(node)) return false;
  if (!ts.isIdentifier(node.expression) || node.expression.text !== "RegExp") return false;
  return !node.arguments?.every((argument) => ts.isStringLiteralLike(argument));
}

/** Whether a node imports `createServer` of HTTP. A separate port would lack the checks of the client's identity. */
function opensHttpPort(node: ts.Node): boolean {
  if (!ts.isImportSpecifier(node) || (node.propertyName ?? node.name).text !== "createServer") return false;
  const moduleSpecifier = node.parent.parent.parent.moduleSpecifier;
  return ts.isStringLiteral(moduleSpecifier) && /^(node:)?https?2?$/.test(moduleSpecifier.text);
}

const BODY_PARSERS = /^(koa-body|koa-bodyparser|co-body|raw-body|body-parser)$/;

/** Whether a node reads or parses a request body. A body that is collected elsewhere has no size limit. */
function readsBody(node: ts.Node): boolean {
  if (ts.isStringLiteralLike(node))
    return BODY_PARSERS.test(node.text) && !node.getSourceFile().text.includes("rechunkBody(");
  return ts.isPropertyAccessExpression(node) && node.name.text === "iterator" && node.expression.getText() !== "Symbol";
}

function readsEnvironment(node: ts.Node): boolean {
  if (ts.isPropertyAccessExpression(node)) return node.name.text === "env" && isProcess(node.expression);
  if (ts.isElementAccessExpression(node)) {
    return (
      ts.isStringLiteralLike(node.argumentExpression) &&
      node.argumentExpression.text === "env" &&
      isProcess(node.expression)
    );
  }
  if (ts.isVariableDeclaration(node) && ts.isObjectBindingPattern(node.name) && node.initializer) {
    return (
      isProcess(node.initializer) &&
      node.name.elements.some(({ name, propertyName }) => (propertyName ?? name).getText() === "env")
    );
  }
  if (ts.isImportDeclaration(node) && /^(node:)?process$/.test((node.moduleSpecifier as ts.StringLiteral).text)) {
    const { namedBindings } = node.importClause ?? {};
    return (
      !!namedBindings &&
      ts.isNamedImports(namedBindings) &&
      namedBindings.elements.some(({ name, propertyName }) => (propertyName ?? name).text === "env")
    );
  }
  return false;
}

function isProcess(node: ts.Expression): boolean {
  return (
    (ts.isIdentifier(node) && node.text === "process") ||
    (ts.isPropertyAccessExpression(node) && node.name.text === "process" && node.expression.getText() === "globalThis")
  );
}

/** Whether an identifier refers to the global, not to a property or declaration of that name. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent))
    return parent.expression === node || parent.expression.getText() === "globalThis";
  return !(ts.isPropertyAssignment(parent) && parent.name === node) && !ts.isPropertySignature(parent);
}

/** Import cycles, including type-only imports, which couple files as well. A file may import itself in a type. */
function findImportCycles(modules: ReadonlyMap<string, Module>): string[] {
  const faults = new Set<string>();
  const visitedFiles = new Set<string>();
  const currentPath: string[] = [];
  const visit = (file: string): void => {
    const cycleStart = currentPath.indexOf(file);
    if (cycleStart !== -1) {
      const cycle = currentPath.slice(cycleStart);
      const firstIndex = cycle.indexOf([...cycle].sort()[0] ?? "");
      const rotatedCycle = [...cycle.slice(firstIndex), ...cycle.slice(0, firstIndex)];
      faults.add(`${rotatedCycle[0]}: import circle ${[...rotatedCycle, rotatedCycle[0]].join(" -> ")}`);
      return;
    }
    if (visitedFiles.has(file)) return;
    currentPath.push(file);
    for (const { target, isDynamic } of modules.get(file)?.imports ?? []) {
      if (target !== undefined && target !== file && !isDynamic && modules.has(target)) visit(target);
    }
    currentPath.pop();
    visitedFiles.add(file);
  };
  for (const file of modules.keys()) visit(file);
  return [...faults];
}

/** Packages that are loaded together with the command line, or with an enabled adapter. */
function findStartFaults(modules: ReadonlyMap<string, Module>): string[] {
  const faults: string[] = [];
  const roots: [string, RegExp][] = [
    ["src/cli/main.ts", HEAVY_PACKAGES],
    ["src/cli/dispatch.ts", HEAVY_PACKAGES],
    ["src/cli/serve.ts", HEAVY_PACKAGES],
  ];
  for (const file of modules.keys()) {
    if (/^adapters\/[^/]+\/index\.ts$/.test(file)) roots.push([file, HEAVY_ADAPTER_PACKAGES]);
  }
  for (const [root, heavyPackages] of roots) {
    if (!modules.has(root)) continue;
    const pathByFile = new Map<string, string>([[root, ""]]);
    for (const [file, importPath] of pathByFile) {
      for (const { specifier, target, isTypeOnly, isDynamic } of modules.get(file)?.imports ?? []) {
        if (isTypeOnly || isDynamic) continue;
        if (heavyPackages.test(specifier))
          faults.push(`${file}: ${specifier} is loaded at the start of ${root}${importPath}`);
        if (target !== undefined && !pathByFile.has(target)) pathByFile.set(target, `${importPath} via ${file}`);
      }
    }
  }
  return faults;
}
