import ts from "typescript";
import { UNTRUSTED_FILES } from "./import-rules.js";
import type { Module } from "./modules.js";

/** Files that open HTTP ports. The second file listens only on Unix sockets in private folders. */
const HTTP_LISTENERS = new Set(["src/http/http-host.ts", "src/http/filtering-proxy.ts"]);
/** Files of src that implement HTTP for the transports. */
const HTTP_FILES = /^src\/http\//;

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
/** May compile expressions from the user's own config: protected paths, secrets. */
const TRUSTED_EXPRESSION_FILES = new Set(["src/files/protection.ts"]);

/** Finds uses of the environment, the console, HTTP and wire words outside the files that may use them. */
export function findUsageFaults({ file, ast }: Module): string[] {
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
