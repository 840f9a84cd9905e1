import path from "node:path";
import ts from "typescript";

/** Source text by path from the repository's root, with `/`. */
export type Sources = ReadonlyMap<string, string>;

interface Import {
  specifier: string;
  /** Erased by the compiler: no edge when the program runs. */
  typeOnly: boolean;
  /** By `import()`: followed when that line runs, not when the file is loaded. */
  dynamic: boolean;
  /** File of the repository that it leads to. */
  target: string | undefined;
}

interface Module {
  file: string;
  ast: ts.SourceFile;
  imports: Import[];
}

/** Files of src that speak HTTP for the transports. */
const SPEAKS_HTTP = /^src\/http\//;

/**
 * The modules of src, from the highest layer down. An import leads down this list, or stays in its module. The folders
 * of `src/run` are modules of their own: they never import the files of `src/run` itself.
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

/** -1 if the file is in no module. */
function layerOf(file: string): number {
  return MODULES.findIndex(([, has]) => has.test(file));
}
const CONTAINER = new Set(["tsyringe", "reflect-metadata"]);
const CONTAINER_FILES = /^src\/(plugin|serve)\//;
/** Composition loads adapters, and only when they are wanted. */
const LOADERS = new Set(["src/serve/selected-adapters.ts", "src/serve/plugins.ts"]);
/** A person's door is no part of an agent: its command loads it, by its public name. */
const CHAT = "src/cli/chat.ts";
const TERMINAL = "gantry/adapters/terminal";
/** Doors for people are built on the client alone. */
const FOR_PEOPLE = /^adapters\/(terminal|web-console\/app)\//;
/** What works on a project's files: paths are opened by src/files/path-guard.ts alone, which checks what it has opened. */
const WORKS_ON_PROJECTS =
  /^src\/(tools\/|project\/|untrusted\/|files\/attachments\.ts$|history\/(plan|restore)\.ts$|run\/)/;
/** Of those, what looks at the system and not at the project: the sandbox, processes. */
const LOOKS_AT_SYSTEM = /^src\/tools\/(shell\/sandbox\/|shell\/shell-command|files\/checks\/quick-command)/;
const WIRE_WORDS = new Set(
  (
    "session_id parent_id created_at updated_at tool_call_id tool_args tool_output tool_name agent_id agent_name finish_reason " +
    "prompt_tokens completion_tokens total_tokens sessionUpdate jsonrpc stopReason statusCode writeHead setHeader " +
    "Acp-Connection-Id Acp-Session-Id X-Session-Id text/event-stream session/update session/prompt session/new"
  ).split(" "),
);
/**
 * Where bytes of a model provider come in, under limits; nobody else there asks by himself, or reads a body whole. Who
 * asks also looks for a proxy in the environment, as every client of HTTP does.
 */
const ASKS_PROVIDERS = "adapters/language-models/connections.ts";
/** The reader for all others, the redactor of secrets, and the HTTP client, which looks for a proxy. */
const READS_ENVIRONMENT = new Set([
  // It finds the folder of compiled code before it loads a module.
  "src/cli/main.ts",
  "src/serve/environment.ts",
  "src/base/process-secrets.ts",
  // Programs of others use the client, without gantry's config.
  "adapters/koa-http-api/client/person-token.ts",
  ASKS_PROVIDERS,
]);
const READS_PROVIDERS = "adapters/language-models/bodies.ts";
/** The tool that reads pages, under limits of its own, and the terminal's way to the server of whoever sits there. */
const READS_PAGES = /^src\/(tools\/web\/|cli\/own-server\.ts$)/;
const WHOLE_BODY = new Set(["text", "json", "arrayBuffer", "blob", "bytes", "formData"]);
/** Never loaded before the server listens: each costs more than the kernel. */
const HEAVY =
  /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|lowdb$|lowdb\/|@pydantic\/|jsonc-parser$|import-meta-resolve$|typescript$|esbuild$)/;
/** May stand in an adapter's own start: it was chosen. */
const HEAVY_FOR_ADAPTERS = /^(@ai-sdk\/|zod$|zod\/|undici$|better-sqlite3$|koa-body$|@pydantic\/)/;

/** `gantry/client` runs in browsers: nothing that it imports at run time is another's. */
const CLIENT = /^adapters\/koa-http-api\/client\//;
/** What it knows of the server: types, which are erased. */
const SHAPES = "adapters/koa-http-api/shapes.ts";

/** Where foreign input is worked on. Only the door may be used from outside; the rest runs in a thread, under its limits. */
const UNTRUSTED = /^src\/untrusted\//;
const WORKERS = "src/untrusted/workers.ts";
/** The code of a thread as text: nothing of it runs where it is imported. */
const THREAD_CODE = "src/untrusted/worker-code.ts";
/** What parses what strangers wrote. */
const PARSES_FOREIGN = /^htmlparser2(\/|$)/;
/** Make expressions of the user's own config: protected paths, secrets. */
const TRUSTED_EXPRESSIONS = new Set(["src/files/protection.ts", "src/base/redact.ts"]);
/** Threads of src have limits; an adapter looks after its own. */
const THREADS = /^(node:)?worker_threads$/;

/** Every broken rule, as `file: what`. Type-only imports are erased, and so are exempt from the start path alone. */
export function architectureFaults(sources: Sources): string[] {
  const modules = new Map<string, Module>();
  for (const [file, text] of sources) modules.set(file, parse(file, text, sources));
  const faults: string[] = [];
  for (const module of modules.values()) {
    if (module.file.startsWith("src/") && layerOf(module.file) === -1) faults.push(`${module.file}: is in no module`);
    faults.push(...edges(module), ...words(module), ...opening(module));
  }
  faults.push(...circles(modules), ...startPath(modules));
  return faults.sort();
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
      const own = file.split("/").slice(0, 2).join("/");
      if (CLIENT.test(file) && !(target && CLIENT.test(target)) && !(typeOnly && target === SHAPES))
        fault(`imports ${specifier}; the client runs in browsers, and has types of ${SHAPES} alone`);
      if (specifier.startsWith(".")) {
        const shared = /^adapters\/acp-(?!shared)/.test(file) && target?.startsWith("adapters/acp-shared/");
        if (!target?.startsWith(`${own}/`) && !shared) fault(`imports ${String(target)}, outside its own folder`);
      } else if (FOR_PEOPLE.test(file)) {
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

/** Where a path of a project is opened past the one place that does. */
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
          ? bindings.elements.filter((one) => !one.isTypeOnly).map((one) => (one.propertyName ?? one.name).text)
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

/** A question to another server, or a body read whole, beside the places that have limits for it. */
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
  // Helpers of the kits are called like methods of a body.
  if (!ts.isPropertyAccessExpression(expression) || file.startsWith("src/testing/")) return undefined;
  if (!WHOLE_BODY.has(expression.name.text)) return undefined;
  // The kernel has words of its own that are called so, none of which is waited for.
  if (file.startsWith("src/") && !ts.isAwaitExpression(node.parent)) return undefined;
  return `reads a body whole; only ${READS_PROVIDERS} may`;
}

/** `fetch` that nobody in the file has brought: called, or taken from `globalThis`; types are no calls. */
function isGlobalFetch(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent))
    return parent.name === node && parent.expression.getText() === "globalThis";
  if (!ts.isCallExpression(parent) || parent.expression !== node) return false;
  for (let scope: ts.Node | undefined = parent; scope; scope = scope.parent) {
    if (ts.isFunctionLike(scope) && scope.parameters.some(({ name }) => name.getText() === "fetch")) return false;
    if (ts.isBlock(scope) || ts.isSourceFile(scope)) {
      const brought = scope.statements.some(
        (statement) =>
          ts.isVariableStatement(statement) &&
          statement.declarationList.declarations.some(({ name }) => /\bfetch\b/.test(name.getText())),
      );
      if (brought) return false;
    }
  }
  return true;
}

/** `RegExp(x)` or `new RegExp(x)` of anything but a text that stands there. */
function compilesExpression(node: ts.Node): boolean {
  if (!ts.isNewExpression(node) && !ts.isCallExpression(node)) return false;
  if (!ts.isIdentifier(node.expression) || node.expression.text !== "RegExp") return false;
  return !node.arguments?.every((one) => ts.isStringLiteralLike(one));
}

/** A port of its own would be without the checks of who asks. */
function opensHttpPort(node: ts.Node): boolean {
  if (!ts.isImportSpecifier(node) || (node.propertyName ?? node.name).text !== "createServer") return false;
  const from = node.parent.parent.parent.moduleSpecifier;
  return ts.isStringLiteral(from) && /^(node:)?https?2?$/.test(from.text);
}

const BODY_PARSERS = /^(koa-body|koa-bodyparser|co-body|raw-body|body-parser)$/;

/** A body that is gathered elsewhere is bounded by nobody. */
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

/** An identifier that means the global, not a property or a declaration of that name. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent))
    return parent.expression === node || parent.expression.getText() === "globalThis";
  return !(ts.isPropertyAssignment(parent) && parent.name === node) && !ts.isPropertySignature(parent);
}

/** Circles of imports; of types too, since they bind two files as fast. A file may name itself in a type. */
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

/** Packages in what is loaded together with the command line, or with an adapter that is switched on. */
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
