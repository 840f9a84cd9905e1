import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { Context } from "koa";
import { JSON_TYPE } from "./headers.js";
import { NOTES } from "./openapi-notes.js";
import { HEADERS, OPERATIONS, type Answer, type Operation } from "./openapi-paths.js";
import { SHAPES } from "./openapi-shapes.js";

const at = (name: string) => `#/components/schemas/${name}`;
const ref = (name: string) => ({ $ref: at(name) });
const oneOf = <T extends object>(schemas: readonly T[]) => (schemas.length === 1 ? schemas[0]! : { oneOf: schemas });

const ABOUT = `What \`gantry serve\` answers under \`/api\`: docs/http-api.md and docs/live.md say more.

HEAD is answered as GET is, without a body, and OPTIONS with 204, on any path. A path that is not here is 404, a method
that is not here 405 with \`Allow\`. What is no HTTP, comes too slowly or is too large is 400, 408 or 431 with a \`Failure\`.
Fields may be added to answers, and events to streams: clients pass over what they do not know.

A stream is server-sent events. Its schema here is that of one event: \`event\` is its name, \`data\` what the JSON of
its data is, \`id\` its id where it has one.`;

/** The API as an OpenAPI 3.1 document. */
export function openApi(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of OPERATIONS) (paths[operation.path] ??= {})[operation.method] = described(operation);
  const schemas = toJsonSchemaDefs(SHAPES, {
    target: "draft-2020-12",
    typeMode: "input",
    overrideRef: ({ referenceId }) => at(referenceId),
    // JSON numbers are always finite.
    overrideAction: ({ valibotAction, jsonSchema }) => (valibotAction.type === "finite" ? jsonSchema : undefined),
  });
  return {
    openapi: "3.1.0",
    info: { title: "gantry", summary: "The HTTP API of a headless coding agent", description: ABOUT, version },
    servers: [{ url: "/", description: "The server that this was asked of" }],
    // Servers without authentication require no credentials.
    security: [{}, { bearer: [] }],
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, noted(name, schema)])),
      headers: Object.fromEntries(
        Object.entries(HEADERS).map(([name, { schema, about }]) => [name, { schema, description: about }]),
      ),
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description:
            "Where `server.required_headers` asks for an `Authorization`. It may ask for other headers, which are then sent in the same way.",
        },
      },
    },
  };
}

function noted(name: string, schema: object): object {
  const { description, properties = {} } = NOTES[name as keyof typeof NOTES] ?? {};
  const own = (schema as { properties?: Record<string, object> }).properties ?? {};
  const more = Object.entries(properties).map(([key, note]) => [key, { ...own[key], ...note }]);
  return {
    ...schema,
    ...(description !== undefined && { description }),
    ...(more.length > 0 && { properties: { ...own, ...(Object.fromEntries(more) as object) } }),
  };
}

function described({ id, path, about, parameters = [], body, answers }: Operation) {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    ...{ name, in: "path", required: true, schema: { type: "string" } },
  }));
  const all = [
    ...inPath,
    ...parameters.map(({ in: place, name, schema, about: description }) => ({ name, in: place, description, schema })),
  ];
  return {
    operationId: id,
    summary: about,
    ...(all.length > 0 && { parameters: all }),
    ...(body && { requestBody: { required: true, content: { [JSON_TYPE]: { schema: ref(body) } } } }),
    responses: Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, answerOf(answer)])),
  };
}

function answerOf({ about, shapes: names, events, headers = [] }: Answer) {
  const streamed = Object.entries(events ?? {}).map(([event, name]) => ({
    type: "object",
    properties: { event: { const: event }, id: { type: "string" }, data: ref(name) },
    required: ["event", "data"],
  }));
  const plain = names ? oneOf(names.map(ref)) : { type: "object" };
  return {
    description: about,
    ...(headers.length > 0 && {
      headers: Object.fromEntries(headers.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    }),
    content: {
      ...((names || !events) && { [JSON_TYPE]: { schema: plain } }),
      ...(events && { "text/event-stream": { schema: oneOf(streamed) } }),
    },
  };
}

let told: string | undefined;

/** `GET /api/openapi.json`. */
export function showDocument(ctx: Context, version: string): void {
  ctx.set("Content-Type", JSON_TYPE);
  ctx.body = told ??= JSON.stringify(openApi(version));
}
