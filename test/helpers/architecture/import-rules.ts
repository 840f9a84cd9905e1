import ts from "typescript";
import type { Module } from "./modules.js";

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
/** `gantry/client` runs in browsers: it imports no other code at run time. */
const CLIENT_FILES = /^adapters\/koa-http-api\/client\//;
/** The client may import types of this file, which the compiler removes. */
const SHAPES_FILE = "adapters/koa-http-api/shapes.ts";

/**
 * Code that processes untrusted input. Other modules may import only the module that starts its workers; the rest runs
 * in a thread with limits.
 */
export const UNTRUSTED_FILES = /^src\/untrusted\//;
const WORKER_STARTER = "src/untrusted/workers.ts";
/** Source code of a thread as text: importing it runs nothing. */
const WORKER_CODE_FILE = "src/untrusted/worker-code.ts";
/** Parsers of third-party content. */
const UNTRUSTED_CONTENT_PARSERS = /^htmlparser2(\/|$)/;
/** Threads of src have limits; adapters manage their own threads. */
const THREAD_MODULES = /^(node:)?worker_threads$/;

/** Finds imports that cross a boundary between modules, adapters or threads. */
export function findImportFaults({ file, imports }: Module): string[] {
  const faults: string[] = [];
  const addFault = (message: string): void => void faults.push(`${file}: ${message}`);
  if (file.startsWith("src/") && findLayer(file) === -1) addFault("is in no module");
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

/** Code that works on a project's files. Only src/files/path-guard.ts opens paths, and checks each opened file. */
const PROJECT_FILE_USERS =
  /^src\/(tools\/|project\/|untrusted\/|files\/attachments\.ts$|history\/(plan|restore)\.ts$|run\/)/;
/** Exceptions that access the system and not the project: the sandbox, processes. */
const SYSTEM_FILE_USERS = /^src\/tools\/(shell\/sandbox\/|shell\/shell-command|files\/checks\/quick-command)/;

/** Finds imports of `fs` in code that must open project paths through the path guard. */
export function findPathFaults({ file, ast }: Module): string[] {
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
