import path from "node:path";
import ts from "typescript";

/** Source text by path relative to the repository's root, with `/`. */
export type Sources = ReadonlyMap<string, string>;

interface Import {
  specifier: string;
  /** Type-only import: the compiler removes it, so it has no effect at run time. */
  typeOnly: boolean;
  /** An `import()`, which loads the file when the line runs. */
  dynamic: boolean;
  /** Imported file of the repository; undefined for packages. */
  target: string | undefined;
}

interface Module {
  file: string;
  ast: ts.SourceFile;
  imports: Import[];
}

/** Files of src that implement HTTP for the transports. */
const SPEAKS_HTTP = /^src\/http\//;

/**
 * Modules of src, from the highest layer down. An import stays in its module or goes down this list. The folders of
 * `src/run` are separate modules: they never import the files of `src/run` itself.
 */
const MODULES: readonly (readonly [name: string, has: RegExp])[] = [
  ...["cli", "serve", "testing"].map(folder),
  ["index.ts", /^src\/index\.ts$/],
  ...["plugin", "agent"].map(folder),
  ["run", /^src\/run\/[^/]+$/],
  ...["calls", "context", "prompt", "permissions", "queue", "tools", "budget", "input"].map((name) =>
    folder(`run/${name}`),
  ),
  ...["watch", "compaction", "memory-driver", "sessions", "models", "conversation", "history"].map(folder),
  ...["tools", "project", "untrusted", "processes", "http", "files", "base", "ports"].map(folder),
];

function folder(name: string): readonly [string, RegExp] {
  return [name, new RegExp(`^src/${name}/`)];
}

/** Index of the file's module; -1 if it is in none. */
function layerOf(file: string): number {
  return MODULES.findIndex(([, has]) => has.test(file));
}
const CONTAINER = new Set(["tsyringe", "reflect-metadata"]);
const CONTAINER_FILES = /^src\/(plugin|serve)\//;
/** Only these files load adapters, and only when needed. */
const LOADERS = new Set(["src/serve/selected-adapters.ts", "src/serve/plugins.ts"]);
/** The terminal is not part of an agent. Its command loads it by its public name. */
const CHAT = "src/cli/chat.ts";
const TERMINAL = "gantry/adapters/terminal";
/** User interfaces import only the client. */
const USER_INTERFACES = /^adapters\/(terminal|web-console\/app)\//;
/** Code that works on a project's files. Only src/files/path-guard.ts opens paths, and it checks what it has opened. */
const WORKS_ON_PROJECTS =
  /^src\/(tools\/|project\/|untrusted\/|files\/attachments\.ts$|history\/(plan|restore)\.ts$|run\/)/;
/** Exceptions that access the system and not the project: the sandbox, processes. */
const LOOKS_AT_SYSTEM = /^src\/tools\/(shell\/sandbox\/|shell\/shell-command|files\/checks\/quick-command)/;
const WIRE_WORDS = new Set(
  (
    "session_id parent_id created_at updated_at tool_call_id tool_args tool_output tool_name agent_id agent_name finish_reason " +
    "prompt_tokens completion_tokens total_tokens sessionUpdate jsonrpc stopReason statusCode writeHead setHeader " +
    "Acp-Connection-Id Acp-Session-Id X-Session-Id text/event-stream session/update session/prompt session/new"
  ).split(" "),
);
/**
 * Receives bytes of a model provider under limits. No other code there sends requests or reads a whole body. It also
 * reads proxy settings from the environment, as every HTTP client does.
 */
const ASKS_PROVIDERS = "adapters/language-models/connections.ts";
/**
 * Files that may read process.env: the reader for all other code, the redactor of secrets, and HTTP clients, which read
 * proxy settings.
 */
const READS_ENVIRONMENT = new Set([
  // It finds the folder of compiled code before it loads a module.
  "src/cli/main.ts",
  "src/serve/environment.ts",
  "src/base/process-secrets.ts",
  // Third-party programs use the client without gantry's config.
  "adapters/koa-http-api/client/person-token.ts",
  ASKS_PROVIDERS,
]);
const READS_PROVIDERS = "adapters/language-models/bodies.ts";
/** The tool that fetches pages, under its own limits, and the terminal's connection to the user's own server. */
const READS_PAGES = /^src\/(tools\/web\/|cli\/server-check\.ts$)/;
const WHOLE_BODY = new Set(["text", "json", "arrayBuffer", "blob", "bytes", "formData"]);
/** Packages that must not be loaded before the server listens: each costs more than the kernel. */
const HEAVY =
  /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|lowdb$|lowdb\/|@pydantic\/|jsonc-parser$|import-meta-resolve$|typescript$|esbuild$)/;
/** Packages that an adapter may not load at its start. The others are permitted, because the adapter was chosen. */
const HEAVY_FOR_ADAPTERS = /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|@pydantic\/)/;

/** `gantry/client` runs in browsers: it imports no other code at run time. */
const CLIENT = /^adapters\/koa-http-api\/client\//;
/** The client may import types of this file, which the compiler removes. */
const SHAPES = "adapters/koa-http-api/shapes.ts";

/**
 * Code that processes untrusted input. Other modules may import only the module that starts its workers; the rest runs
 * in a thread with limits.
 */
const UNTRUSTED = /^src\/untrusted\//;
const WORKERS = "src/untrusted/workers.ts";
/** Source code of a thread as text: importing it runs nothing. */
const THREAD_CODE = "src/untrusted/worker-code.ts";
/** Parsers of third-party content. */
const PARSES_FOREIGN = /^htmlparser2(\/|$)/;
/** May compile expressions from the user's own config: protected paths, secrets. */
const TRUSTED_EXPRESSIONS = new Set(["src/files/protection.ts", "src/base/redact.ts"]);
/** Threads of src have limits; adapters manage their own threads. */
const THREADS = /^(node:)?worker_threads$/;

/** Returns every violation as `file: what`. Only the rules of the start path ignore type-only imports. */
export function architectureFaults(sources: Sources): string[] {
  const modules = new Map<string, Module>();
  for (const [file, text] of sources) modules.set(file, parse(file, text, sources));
  const faults: string[] = [];
  for (const module of modules.values()) {
    if (module.file.startsWith("src/") && layerOf(module.file) === -1) faults.push(`${module.file}: is in no module`);
    faults.push(...edges(module), ...words(module), ...opening(module));
  }
  faults.push(...circles(modules), ...startPath(modules), ...repeatedTypeNames(modules));
  return faults.sort();
}

/** Exported types that another file also declares. A reader who sees the name alone cannot tell which one is meant. */
function repeatedTypeNames(modules: ReadonlyMap<string, Module>): string[] {
  const filesByName = new Map<string, string[]>();
  for (const { file, ast } of modules.values()) {
    for (const node of ast.statements) {
      if (!ts.isInterfaceDeclaration(node) && !ts.isTypeAliasDeclaration(node) && !ts.isClassDeclaration(node))
        continue;
      if (!node.name || !node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
      filesByName.set(node.name.text, [...(filesByName.get(node.name.text) ?? []), file]);
    }
  }
  return [...filesByName].flatMap(([name, [first, ...laterFiles]]) =>
    laterFiles.map((file) => `${file}: declares the type ${name}, which ${first} also declares`),
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
  const add = (specifier: ts.Node | undefined, typeOnly: boolean, dynamic: boolean): void => {
    if (!specifier || !ts.isStringLiteralLike(specifier)) return;
    imports.push({
      specifier: specifier.text,
      typeOnly,
      dynamic,
      target: resolveImport(file, specifier.text, sources),
    });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword, false);
    } else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly, false);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false, true);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      add(node.argument.literal, true, false);
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return { file, ast, imports };
}

function resolveImport(from: string, specifier: string, sources: Sources): string | undefined {
  let target: string;
  if (specifier.startsWith(".")) target = path.posix.join(path.posix.dirname(from), specifier).replace(/\.js$/, ".ts");
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

function edges({ file, imports }: Module): string[] {
  const faults: string[] = [];
  const fault = (what: string): void => void faults.push(`${file}: ${what}`);
  for (const { specifier, target, typeOnly, dynamic } of imports) {
    if (CONTAINER.has(specifier) && !CONTAINER_FILES.test(file) && !file.startsWith("test/")) {
      fault(`imports ${specifier}; only src/plugin and src/serve may`);
    }
    if (!typeOnly && /^(src|adapters)\//.test(file)) {
      if (PARSES_FOREIGN.test(specifier) && !UNTRUSTED.test(file))
        fault(`imports ${specifier}; foreign input is parsed in src/untrusted, in a thread with limits`);
      if (THREADS.test(specifier) && file.startsWith("src/") && !UNTRUSTED.test(file))
        fault(`imports ${specifier}; threads are started in ${WORKERS}, with limits`);
      const inside = (UNTRUSTED.test(file) && file !== WORKERS) || target === THREAD_CODE;
      if (target !== undefined && UNTRUSTED.test(target) && target !== WORKERS && !inside)
        fault(`imports ${target}, which runs in a thread alone; ask it through ${WORKERS}`);
      if (target !== undefined && /(^|[-/])worker\.ts$/.test(target)) fault(`imports ${target}, the start of a thread`);
    }
    if (file.startsWith("src/")) {
      if (target?.startsWith("adapters/")) {
        if (file === CHAT && specifier === TERMINAL && (dynamic || typeOnly)) continue;
        if (LOADERS.has(file) && (dynamic || typeOnly)) continue;
        fault(
          `imports the adapter ${target}; only src/serve/plugins.ts and src/serve/selected-adapters.ts may, by import()`,
        );
      } else if (target?.startsWith("src/")) {
        const [from, to] = [layerOf(file), layerOf(target)];
        if (to < from && to !== -1)
          fault(`${MODULES[from]?.[0]} imports ${target} of a higher layer (${MODULES[to]?.[0]})`);
      } else if (target !== undefined && !/^package\.json$/.test(target)) fault(`imports ${target}, outside src`);
      if (specifier.startsWith("gantry") && !file.startsWith("src/testing/")) fault("imports its own package by name");
    } else if (file.startsWith("adapters/")) {
      const adapterFolder = file.split("/").slice(0, 2).join("/");
      if (CLIENT.test(file) && !(target && CLIENT.test(target)) && !(typeOnly && target === SHAPES))
        fault(`imports ${specifier}; the client runs in browsers, and has types of ${SHAPES} alone`);
      if (specifier.startsWith(".")) {
        const shared = /^adapters\/acp-(?!shared)/.test(file) && target?.startsWith("adapters/acp-shared/");
        if (!target?.startsWith(`${adapterFolder}/`) && !shared)
          fault(`imports ${String(target)}, outside its own folder`);
      } else if (USER_INTERFACES.test(file)) {
        if (/^gantry(\/|$)/.test(specifier) && specifier !== "gantry/client")
          fault(`imports ${specifier}; doors for people are built on "gantry/client" alone`);
      } else if (specifier.startsWith("gantry/") && !/^gantry\/(plugin|http|client)$/.test(specifier))
        fault(
          `imports ${specifier}; adapters import "gantry", "gantry/plugin", "gantry/http" and "gantry/client" alone`,
        );
    } else if (file.startsWith("examples/")) {
      if (!/^(gantry(\/|$)|node:)/.test(specifier)) fault(`imports ${specifier}; examples import "gantry" alone`);
    }
  }
  return faults;
}

/** Finds imports of `fs` in code that must open project paths through the path guard. */
function opening({ file, ast }: Module): string[] {
  if (!WORKS_ON_PROJECTS.test(file) || LOOKS_AT_SYSTEM.test(file)) return [];
  const faults: string[] = [];
  const visit = (node: ts.Node): void => {
    const from =
      ts.isImportDeclaration(node) && node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword
        ? node.moduleSpecifier
        : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
          ? node.arguments[0]
          : undefined;
    if (from && ts.isStringLiteralLike(from) && /^(node:)?fs(\/promises)?$/.test(from.text)) {
      const bindings = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : undefined;
      const names =
        bindings && ts.isNamedImports(bindings)
          ? bindings.elements
              .filter((element) => !element.isTypeOnly)
              .map((element) => (element.propertyName ?? element.name).text)
          : ["all of it"];
      if (names.length > 0)
        faults.push(`${file}: takes ${names.join(", ")} from ${from.text}; src/files/path-guard.ts opens paths`);
    }
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return faults;
}

function words({ file, ast }: Module): string[] {
  const faults: string[] = [];
  if (!/^(src|adapters)\//.test(file)) return faults;
  const fault = (node: ts.Node, what: string): void => {
    faults.push(`${file}: ${what} (line ${ast.getLineAndCharacterOfPosition(node.getStart()).line + 1})`);
  };
  const kernel = file.startsWith("src/") && !SPEAKS_HTTP.test(file);
  const visit = (node: ts.Node): void => {
    if (!READS_ENVIRONMENT.has(file) && readsEnvironment(node))
      fault(node, "reads process.env; only src/serve/environment.ts may");
    if (file !== "src/cli/main.ts" && ts.isIdentifier(node) && node.text === "console" && isReference(node)) {
      fault(node, "uses console; only src/cli/main.ts may");
    }
    if (kernel && (ts.isStringLiteralLike(node) || ts.isIdentifier(node)) && WIRE_WORDS.has(node.text)) {
      fault(node, `wire word ${node.text}; it belongs to an adapter`);
    }
    const foreign = readsForeign(file, node);
    if (foreign !== undefined) fault(node, foreign);
    if (
      file.startsWith("src/") &&
      !UNTRUSTED.test(file) &&
      !TRUSTED_EXPRESSIONS.has(file) &&
      compilesExpression(node)
    ) {
      fault(
        node,
        "makes a regular expression of a value; those of others run in src/untrusted, in a thread with limits",
      );
    }
    if (file !== "src/http/http-host.ts" && opensHttpPort(node))
      fault(node, "opens an HTTP port; only src/http/http-host.ts may");
    if (file !== "src/http/body.ts" && readsBody(node))
      fault(node, "reads a request's body; only src/http/body.ts may, or a parser of what its gatheredBody gives");
    const isDefault =
      (ts.isExportAssignment(node) && !node.isExportEquals) ||
      (ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword)) ||
      (ts.isExportSpecifier(node) && node.name.text === "default");
    if (isDefault && !/^adapters\/[^/]+\/index\.ts$/.test(file)) fault(node, "default export");
    ts.forEachChild(node, visit);
  };
  visit(ast);
  return faults;
}

/** Finds requests to other servers, and whole-body reads, outside the modules that apply limits to them. */
function readsForeign(file: string, node: ts.Node): string | undefined {
  if (READS_PAGES.test(file) || !/^(src|adapters\/language-models)\//.test(file)) return undefined;
  const asks = `asks another server by itself; only ${ASKS_PROVIDERS} may`;
  const clients = file.startsWith("src/") ? /^undici$/ : /^(undici|(node:)?(https?|http2|net|tls))$/;
  if (file !== ASKS_PROVIDERS) {
    if (ts.isImportDeclaration(node) && clients.test((node.moduleSpecifier as ts.StringLiteral).text)) {
      if (node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword) return asks;
    }
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier && ts.isStringLiteralLike(specifier) && clients.test(specifier.text)) return asks;
    }
    if (ts.isIdentifier(node) && node.text === "fetch" && isGlobalFetch(node)) return asks;
  }
  if (file === READS_PROVIDERS || !ts.isCallExpression(node) || node.arguments.length > 0) return undefined;
  const { expression } = node;
  // Functions of the testing kit have names like methods of a body.
  if (!ts.isPropertyAccessExpression(expression) || file.startsWith("src/testing/")) return undefined;
  if (!WHOLE_BODY.has(expression.name.text)) return undefined;
  // The kernel has methods with the same names, which are never awaited.
  if (file.startsWith("src/") && !ts.isAwaitExpression(node.parent)) return undefined;
  return `reads a body whole; only ${READS_PROVIDERS} may`;
}

/**
 * Whether `fetch` is the global one: called without a local declaration, or taken from `globalThis`. Types are no
 * calls.
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

/** `RegExp(x)` or `new RegExp(x)` with anything except a string literal. */
function compilesExpression(node: ts.Node): boolean {
  if (!ts.isNewExpression(node) && !ts.isCallExpression(node)) return false;
  if (!ts.isIdentifier(node.expression) || node.expression.text !== "RegExp") return false;
  return !node.arguments?.every((argument) => ts.isStringLiteralLike(argument));
}

/** A separate port would lack the checks of the client's identity. */
function opensHttpPort(node: ts.Node): boolean {
  if (!ts.isImportSpecifier(node) || (node.propertyName ?? node.name).text !== "createServer") return false;
  const from = node.parent.parent.parent.moduleSpecifier;
  return ts.isStringLiteral(from) && /^(node:)?https?2?$/.test(from.text);
}

const BODY_PARSERS = /^(koa-body|koa-bodyparser|co-body|raw-body|body-parser)$/;

/** A body that is collected elsewhere has no size limit. */
function readsBody(node: ts.Node): boolean {
  if (ts.isStringLiteralLike(node))
    return BODY_PARSERS.test(node.text) && !node.getSourceFile().text.includes("gatheredBody(");
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
function circles(modules: ReadonlyMap<string, Module>): string[] {
  const faults = new Set<string>();
  const done = new Set<string>();
  const way: string[] = [];
  const visit = (file: string): void => {
    const at = way.indexOf(file);
    if (at !== -1) {
      const circle = way.slice(at);
      const first = circle.indexOf([...circle].sort()[0] ?? "");
      const turned = [...circle.slice(first), ...circle.slice(0, first)];
      faults.add(`${turned[0]}: import circle ${[...turned, turned[0]].join(" -> ")}`);
      return;
    }
    if (done.has(file)) return;
    way.push(file);
    for (const { target, dynamic } of modules.get(file)?.imports ?? []) {
      if (target !== undefined && target !== file && !dynamic && modules.has(target)) visit(target);
    }
    way.pop();
    done.add(file);
  };
  for (const file of modules.keys()) visit(file);
  return [...faults];
}

/** Packages that are loaded together with the command line, or with an enabled adapter. */
function startPath(modules: ReadonlyMap<string, Module>): string[] {
  const faults: string[] = [];
  const roots: [string, RegExp][] = [
    ["src/cli/main.ts", HEAVY],
    ["src/cli/dispatch.ts", HEAVY],
    ["src/cli/serve.ts", HEAVY],
  ];
  for (const file of modules.keys()) {
    if (/^adapters\/[^/]+\/index\.ts$/.test(file)) roots.push([file, HEAVY_FOR_ADAPTERS]);
  }
  for (const [root, heavy] of roots) {
    if (!modules.has(root)) continue;
    const seen = new Map<string, string>([[root, ""]]);
    for (const [file, by] of seen) {
      for (const { specifier, target, typeOnly, dynamic } of modules.get(file)?.imports ?? []) {
        if (typeOnly || dynamic) continue;
        if (heavy.test(specifier)) faults.push(`${file}: ${specifier} is loaded at the start of ${root}${by}`);
        if (target !== undefined && !seen.has(target)) seen.set(target, `${by} via ${file}`);
      }
    }
  }
  return faults;
}
