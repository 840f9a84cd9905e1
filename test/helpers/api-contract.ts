import assert from "node:assert/strict";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { createOpenApiDocument } from "../../adapters/koa-http-api/openapi.js";

/** A request and its response. */
export interface Exchange {
  method: string;
  /** Path with the query string. */
  path: string;
  body?: string | Uint8Array | undefined;
  status: number;
  headers: Readonly<Record<string, unknown>>;
  text: string;
}

type Json = Record<string, unknown>;
interface OperationObject {
  parameters?: { name: string; in: string; schema: Json }[];
  requestBody?: unknown;
  responses: Record<string, { headers?: Json; content?: Record<string, { schema: Json }> }>;
}

/** Error codes for input that never became a request of a path. */
const UNROUTED_ERROR_CODES = new Set(["bad_request", "request_timeout", "headers_too_large"]);
/** Statuses that can refuse any request, before its path is considered. */
const ACCESS_STATUSES = new Set([400, 401, 403, 413, 415, 503]);
/** Query parameters that tests send to verify that they have no effect. */
const IGNORED_PARAMETERS = new Set(["authorization", "x"]);
const GANTRY_HEADERS = ["x-session-id", "x-run-id", "x-model", "x-ignored-fields", "retry-after"];

const document = createOpenApiDocument("0.1.0") as {
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Json };
};
const ajv = new Ajv2020({ strict: false });
ajv.addSchema(document, "open");
ajv.addSchema(closeSchemas(document) as Json, "closed");

/** Each path, status and event observed in this process, as `GET /api/health 200` and `GET ... event: state`. */
export const observedOperations = new Set<string>();

/** All paths, statuses and events of the document, in the same format. */
export function listDocumentedOperations(): string[] {
  return listOperations().flatMap(({ method, path, operationObject }) =>
    Object.entries(operationObject.responses).flatMap(([status, { content = {} }]) => {
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
  const description = `${method} ${path} ${status} ${text.slice(0, 300)}`;
  if (method === "OPTIONS" || method === "HEAD") assert.equal(text, "", description);
  if (method === "OPTIONS") return;
  const operation = findOperation(method === "HEAD" ? "GET" : method, pathname);
  const isJson = exchange.headers["content-type"] === "application/json";
  if (!operation?.operationObject || !operation.operationObject.responses[status]) {
    const failure = method === "HEAD" ? { code: "" } : (JSON.parse(text) as { code: string });
    if (method !== "HEAD") assertMatches("closed", { $ref: "#/components/schemas/Failure" }, failure, description);
    const isAccessRefusal = !operation?.operationObject && ACCESS_STATUSES.has(status);
    assert.ok(
      isAccessRefusal || UNROUTED_ERROR_CODES.has(failure.code) || status === (operation ? 405 : 404),
      `not documented: ${description}`,
    );
    if (status === 405) assert.ok(exchange.headers["allow"], description);
    return;
  }
  const { operationObject, name } = operation as { operationObject: OperationObject; name: string };
  const { headers = {}, content = {} } = operationObject.responses[status]!;
  observedOperations.add(`${name} ${status}`);
  if (status < 300) checkRequest(operationObject, exchange, description);
  for (const header of GANTRY_HEADERS.filter(
    (name) => name in exchange.headers && (status < 300 || name === "retry-after"),
  ))
    assert.ok(
      Object.keys(headers).some((name) => name.toLowerCase() === header),
      `${header} is not documented: ${description}`,
    );
  if (method === "HEAD") return;
  if (isJson) {
    assert.ok(content["application/json"], `no JSON is documented: ${description}`);
    assertMatches("closed", content["application/json"].schema, JSON.parse(text), description);
    return;
  }
  assert.equal(exchange.headers["content-type"], "text/event-stream", description);
  for (const block of text.split("\n\n").filter((block) => /^event: /.test(block) && /^data: .*$/m.test(block)))
    checkEvent(method, pathname, block);
}

/** Checks one event of a stream, as received. */
export function checkEvent(method: string, path: string, block: string): void {
  const readField = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
  const [event, id, data] = [readField("event"), readField("id"), readField("data") ?? "null"];
  const operation = findOperation(method, path.split("?")[0]!);
  const schema = operation?.operationObject?.responses[200]?.content?.["text/event-stream"]?.schema;
  assert.ok(schema, `no stream is documented: ${method} ${path}`);
  assertMatches("closed", schema, { event, ...(id !== undefined && { id }), data: JSON.parse(data) as unknown }, block);
  observedOperations.add(`${operation!.name} event: ${event}`);
}

function checkRequest(
  { parameters = [], requestBody }: OperationObject,
  { path, body }: Exchange,
  description: string,
): void {
  for (const [name, value] of new URLSearchParams(path.split("?")[1] ?? "")) {
    if (IGNORED_PARAMETERS.has(name)) continue;
    const parameter = parameters.find((candidate) => candidate.in === "query" && candidate.name === name);
    assert.ok(parameter, `the parameter ${name} is not documented: ${description}`);
    // A parameter that may be repeated has a list of values.
    const schema = (parameter.schema["items"] ?? parameter.schema) as Json;
    const isText = schema["type"] === "string" || !/^(\d+|true|false)$/.test(value);
    assertMatches("open", schema, isText ? value : (JSON.parse(value) as unknown), description);
  }
  if (!requestBody) return;
  const { content } = requestBody as { content: Record<string, { schema: Json }> };
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  assertMatches("open", content["application/json"]!.schema, JSON.parse(text), description);
}

const compiledSchemas = new Map<string, ValidateFunction>();

/** `open` permits properties that the schema does not describe, `closed` forbids such properties. */
function assertMatches(documentId: "open" | "closed", schema: Json, value: unknown, description: string): void {
  const key = documentId + JSON.stringify(schema);
  const validate =
    compiledSchemas.get(key) ??
    ajv.compile(qualifyReferences(documentId === "closed" ? closeSchemas(schema) : schema, documentId) as Json);
  compiledSchemas.set(key, validate);
  assert.ok(validate(value), `${ajv.errorsText(validate.errors)}: ${description}`);
}

/** Makes the references of a schema relative to the document. */
function qualifyReferences(value: unknown, documentId: string): unknown {
  return mapSchemas(value, (schema) =>
    typeof schema["$ref"] === "string" ? { ...schema, $ref: `${documentId}${schema["$ref"]}` } : schema,
  );
}

/** Forbids properties that the schema does not describe. */
function closeSchemas(value: unknown): unknown {
  return mapSchemas(value, (schema) =>
    schema["type"] === "object" && "properties" in schema ? { ...schema, additionalProperties: false } : schema,
  );
}

function mapSchemas(value: unknown, change: (schema: Json) => Json): unknown {
  if (Array.isArray(value)) return value.map((item) => mapSchemas(item, change));
  if (typeof value !== "object" || value === null) return value;
  return change(
    Object.fromEntries(Object.entries(value).map(([key, property]) => [key, mapSchemas(property, change)])),
  );
}

function listOperations() {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operationObject]) => ({
      method: method.toUpperCase(),
      path,
      operationObject,
    })),
  );
}

function findOperation(
  method: string,
  pathname: string,
): { operationObject: OperationObject | undefined; name: string } | undefined {
  // A literal path wins over one with parameters.
  const path = Object.keys(document.paths)
    .sort((a, b) => a.split("{").length - b.split("{").length)
    .find((template) => new RegExp(`^${template.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname));
  return path === undefined
    ? undefined
    : { operationObject: document.paths[path]![method.toLowerCase()], name: `${method} ${path}` };
}
