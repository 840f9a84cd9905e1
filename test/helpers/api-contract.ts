import assert from "node:assert/strict";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { createOpenApiDocument } from "../../adapters/koa-http-api/openapi.js";

/** A request and its response. */
export interface Exchange {
  method: string;
  /** With the query. */
  path: string;
  body?: string | Uint8Array | undefined;
  status: number;
  headers: Readonly<Record<string, unknown>>;
  text: string;
}

type Json = Record<string, unknown>;
interface Described {
  parameters?: { name: string; in: string; schema: Json }[];
  requestBody?: unknown;
  responses: Record<string, { headers?: Json; content?: Record<string, { schema: Json }> }>;
}

/** Error codes for input that never became a request of a path. */
const BROKEN = new Set(["bad_request", "request_timeout", "headers_too_large"]);
/** Statuses that can refuse any request, before its path is considered. */
const ACCESS_STATUSES = new Set([400, 401, 403, 413, 415, 503]);
/** Query parameters that tests send to verify that they have no effect. */
const IGNORED_PARAMETERS = new Set(["authorization", "x"]);
const OWN_HEADERS = ["x-session-id", "x-run-id", "x-model", "x-ignored-fields", "retry-after"];

const document = createOpenApiDocument("0.1.0") as {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Json };
};
const ajv = new Ajv2020({ strict: false });
ajv.addSchema(document, "open");
ajv.addSchema(closed(document) as Json, "closed");

/** Each path, status and event observed in this process, as `GET /api/health 200` and `GET ... event: state`. */
export const seen = new Set<string>();

/** All paths, statuses and events of the document, in the same format. */
export function documented(): string[] {
  return operations().flatMap(({ method, path, described }) =>
    Object.entries(described.responses).flatMap(([status, { content = {} }]) => {
      const stream = content["text/event-stream"]?.schema as { oneOf: { properties: { event: Json } }[] } | undefined;
      const events = stream?.oneOf.map(
        ({ properties }) => `${method} ${path} event: ${String(properties.event["const"])}`,
      );
      return [`${method} ${path} ${status}`, ...(events ?? [])];
    }),
  );
}

/** Throws if the exchange has a path, status, field, header or event that the document lacks. */
export function checkExchange(exchange: Exchange): void {
  const { method, path, status, text } = exchange;
  const [pathname = ""] = path.split("?");
  if (!pathname.startsWith("/api/")) return;
  const what = `${method} ${path} ${status} ${text.slice(0, 300)}`;
  if (method === "OPTIONS" || method === "HEAD") assert.equal(text, "", what);
  if (method === "OPTIONS") return;
  const operation = operationOf(method === "HEAD" ? "GET" : method, pathname);
  const isJson = exchange.headers["content-type"] === "application/json";
  if (!operation?.described || !operation.described.responses[status]) {
    const failure = method === "HEAD" ? { code: "" } : (JSON.parse(text) as { code: string });
    if (method !== "HEAD") assertIs("closed", { $ref: "#/components/schemas/Failure" }, failure, what);
    const isDoor = !operation?.described && ACCESS_STATUSES.has(status);
    assert.ok(isDoor || BROKEN.has(failure.code) || status === (operation ? 405 : 404), `not documented: ${what}`);
    if (status === 405) assert.ok(exchange.headers["allow"], what);
    return;
  }
  const { described, name } = operation as { described: Described; name: string };
  const { headers = {}, content = {} } = described.responses[status]!;
  seen.add(`${name} ${status}`);
  if (status < 300) checkRequest(described, exchange, what);
  for (const header of OWN_HEADERS.filter(
    (name) => name in exchange.headers && (status < 300 || name === "retry-after"),
  ))
    assert.ok(
      Object.keys(headers).some((name) => name.toLowerCase() === header),
      `${header} is not documented: ${what}`,
    );
  if (method === "HEAD") return;
  if (isJson) {
    assert.ok(content["application/json"], `no JSON is documented: ${what}`);
    assertIs("closed", content["application/json"].schema, JSON.parse(text), what);
    return;
  }
  assert.equal(exchange.headers["content-type"], "text/event-stream", what);
  for (const block of text.split("\n\n").filter((block) => /^event: /.test(block) && /^data: .*$/m.test(block)))
    checkEvent(method, pathname, block);
}

/** Checks one event of a stream, as received. */
export function checkEvent(method: string, path: string, block: string): void {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
  const [event, id, data] = [field("event"), field("id"), field("data") ?? "null"];
  const operation = operationOf(method, path.split("?")[0]!);
  const schema = operation?.described?.responses[200]?.content?.["text/event-stream"]?.schema;
  assert.ok(schema, `no stream is documented: ${method} ${path}`);
  assertIs("closed", schema, { event, ...(id !== undefined && { id }), data: JSON.parse(data) as unknown }, block);
  seen.add(`${operation!.name} event: ${event}`);
}

function checkRequest({ parameters = [], requestBody }: Described, { path, body }: Exchange, what: string): void {
  for (const [name, value] of new URLSearchParams(path.split("?")[1] ?? "")) {
    if (IGNORED_PARAMETERS.has(name)) continue;
    const parameter = parameters.find((candidate) => candidate.in === "query" && candidate.name === name);
    assert.ok(parameter, `the parameter ${name} is not documented: ${what}`);
    const isText = parameter.schema["type"] === "string" || !/^(\d+|true|false)$/.test(value);
    assertIs("open", parameter.schema, isText ? value : (JSON.parse(value) as unknown), what);
  }
  if (!requestBody) return;
  const { content } = requestBody as { content: Record<string, { schema: Json }> };
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  assertIs("open", content["application/json"]!.schema, JSON.parse(text), what);
}

const compiled = new Map<string, ValidateFunction>();

function assertIs(which: "open" | "closed", schema: Json, value: unknown, what: string): void {
  const key = which + JSON.stringify(schema);
  const check = compiled.get(key) ?? ajv.compile(located(which === "closed" ? closed(schema) : schema, which) as Json);
  compiled.set(key, check);
  assert.ok(check(value), `${ajv.errorsText(check.errors)}: ${what}`);
}

/** Makes the references of a schema relative to the document. */
function located(value: unknown, which: string): unknown {
  return mapped(value, (schema) =>
    typeof schema["$ref"] === "string" ? { ...schema, $ref: `${which}${schema["$ref"]}` } : schema,
  );
}

/** Forbids properties that the schema does not describe. */
function closed(value: unknown): unknown {
  return mapped(value, (schema) =>
    schema["type"] === "object" && "properties" in schema ? { ...schema, additionalProperties: false } : schema,
  );
}

function mapped(value: unknown, change: (schema: Json) => Json): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, change));
  if (typeof value !== "object" || value === null) return value;
  return change(Object.fromEntries(Object.entries(value).map(([key, property]) => [key, mapped(property, change)])));
}

function operations() {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ method: method.toUpperCase(), path, described })),
  );
}

function operationOf(method: string, pathname: string): { described: Described | undefined; name: string } | undefined {
  // A literal path wins over one with parameters.
  const path = Object.keys(document.paths)
    .sort((a, b) => a.split("{").length - b.split("{").length)
    .find((template) => new RegExp(`^${template.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname));
  return path === undefined
    ? undefined
    : { described: document.paths[path]![method.toLowerCase()], name: `${method} ${path}` };
}
