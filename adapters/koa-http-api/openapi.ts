import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { Context } from "koa";
import { JSON_TYPE } from "./headers.js";
import { RESPONSE_HEADERS, type Operation, type ResponseDescription } from "./openapi-operation.js";
import { OPERATIONS } from "./openapi-paths.js";
import { NOTES, SHAPES } from "./openapi-shapes.js";

const toSchemaPath = (name: string) => `#/components/schemas/${name}`;
const toReference = (name: string) => ({ $ref: toSchemaPath(name) });
const oneOf = <T extends object>(schemas: readonly T[]) => (schemas.length === 1 ? schemas[0]! : { oneOf: schemas });

const API_DESCRIPTION = `The API of \`gantry serve\` under \`/api\`. Details are in docs/http-api.md and docs/live.md.

HEAD is answered like GET without a body. OPTIONS is answered with 204 on any path. An unknown path returns 404, an unknown method
405 with \`Allow\`. Invalid HTTP, a request that is too slow, and headers that are too large return 400, 408 or 431 with a \`Failure\`.
New fields may be added to answers and new events to streams: clients must ignore unknown ones.

A stream consists of server-sent events. Its schema describes one event: \`event\` is the name, \`data\` the parsed JSON of
the data, \`id\` the optional id.`;

/** The API as an OpenAPI 3.1 document. */
export function createOpenApiDocument(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of OPERATIONS) (paths[operation.path] ??= {})[operation.method] = describeOperation(operation);
  const schemas = toJsonSchemaDefs(SHAPES, {
    target: "draft-2020-12",
    typeMode: "input",
    overrideRef: ({ referenceId }) => toSchemaPath(referenceId),
    // JSON numbers are always finite.
    overrideAction: ({ valibotAction, jsonSchema }) => (valibotAction.type === "finite" ? jsonSchema : undefined),
  });
  return {
    openapi: "3.1.0",
    info: {
      title: "gantry",
      summary: "The HTTP API of a headless coding agent",
      description: API_DESCRIPTION,
      version,
    },
    servers: [{ url: "/", description: "The server of this document" }],
    // Servers without authentication require no credentials.
    security: [{}, { bearer: [] }],
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, addNotes(name, schema)])),
      headers: Object.fromEntries(
        Object.entries(RESPONSE_HEADERS).map(([name, { schema, description }]) => [name, { schema, description }]),
      ),
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description:
            "Required if `server.required_headers` contains `Authorization`. Other required headers are sent in the same way.",
        },
      },
    },
  };
}

function addNotes(name: string, schema: object): object {
  const { description, properties = {} } = NOTES[name as keyof typeof NOTES] ?? {};
  const schemaProperties = (schema as { properties?: Record<string, object> }).properties ?? {};
  const notedEntries = Object.entries(properties).map(([key, note]) => [key, { ...schemaProperties[key], ...note }]);
  return {
    ...schema,
    ...(description !== undefined && { description }),
    ...(notedEntries.length > 0 && {
      properties: { ...schemaProperties, ...(Object.fromEntries(notedEntries) as object) },
    }),
  };
}

function describeOperation({ id, path, summary, parameters = [], body, responses }: Operation) {
  const pathParameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    ...{ name, in: "path", required: true, schema: { type: "string" } },
  }));
  const allParameters = [
    ...pathParameters,
    ...parameters.map(({ in: location, name, schema, description }) => ({ name, in: location, description, schema })),
  ];
  return {
    operationId: id,
    summary,
    ...(allParameters.length > 0 && { parameters: allParameters }),
    ...(body && { requestBody: { required: true, content: { [JSON_TYPE]: { schema: toReference(body) } } } }),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, response]) => [status, describeResponse(response)]),
    ),
  };
}

function describeResponse({ description, shapes: shapeNames, events, headers = [] }: ResponseDescription) {
  const eventSchemas = Object.entries(events ?? {}).map(([event, name]) => ({
    type: "object",
    properties: { event: { const: event }, id: { type: "string" }, data: toReference(name) },
    required: ["event", "data"],
  }));
  const bodySchema = shapeNames ? oneOf(shapeNames.map(toReference)) : { type: "object" };
  return {
    description,
    ...(headers.length > 0 && {
      headers: Object.fromEntries(headers.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    }),
    content: {
      ...((shapeNames || !events) && { [JSON_TYPE]: { schema: bodySchema } }),
      ...(events && { "text/event-stream": { schema: oneOf(eventSchemas) } }),
    },
  };
}

let cachedDocument: string | undefined;

/** `GET /api/openapi.json`. */
export function showDocument(ctx: Context, version: string): void {
  ctx.set("Content-Type", JSON_TYPE);
  ctx.body = cachedDocument ??= JSON.stringify(createOpenApiDocument(version));
}
