import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import type { ShapeName } from "./openapi-shapes.js";

export interface ResponseDescription {
  /** Shapes of the JSON body; `Failure` for errors. Undefined for streams, and for a body without a schema. */
  shapes?: readonly ShapeName[];
  /** Shapes of the stream's events by event name; undefined if the answer is never a stream. */
  events?: Readonly<Record<string, ShapeName>>;
  headers?: readonly (keyof typeof RESPONSE_HEADERS)[];
  description: string;
}

/** A query parameter or a request header. */
interface Parameter {
  in: "query" | "header";
  name: string;
  schema: object;
  description: string;
}

/** A path with one of its methods. */
export interface Operation {
  id: string;
  path: string;
  method: "get" | "post" | "patch" | "delete";
  summary: string;
  parameters?: readonly Parameter[];
  body?: ShapeName;
  responses: Readonly<Record<number, ResponseDescription>>;
}

export const textSchema = { type: "string" };
export const integerFrom = (minimum: number, extraKeywords = {}) => ({ type: "integer", minimum, ...extraKeywords });
export const query = (name: string, schema: object, description: string): Parameter => ({
  in: "query",
  name,
  schema,
  description,
});
export const header = (name: string, schema: object, description: string): Parameter => ({
  in: "header",
  name,
  schema,
  description,
});

export const RESPONSE_HEADERS = {
  [SESSION_HEADER]: { schema: textSchema, description: "Id of the session, as in lists" },
  [RUN_HEADER]: { schema: textSchema, description: "Id of the run" },
  [MODEL_HEADER]: {
    schema: textSchema,
    description: "The model that answers, as `provider/model`; absent while the run is queued",
  },
  [IGNORED_HEADER]: { schema: textSchema, description: "Request fields that were ignored; absent if there are none" },
  "Retry-After": { schema: integerFrom(1), description: "Seconds to wait before the next request" },
} as const;

export const success = (description: string, ...names: ShapeName[]): ResponseDescription => ({
  description,
  shapes: names,
});
export const failure = (description: string, ...headers: (keyof typeof RESPONSE_HEADERS)[]): ResponseDescription => ({
  description,
  shapes: ["Failure"],
  headers,
});

/** Errors of every operation: access denied, server overloaded or stopping. */
export const accessErrors = {
  401: failure("A required header or the token of a user is absent or wrong"),
  403: failure("The page, host, user or process is not allowed, or the request requires a person or a scope"),
  429: failure("The user has made too many requests, or has used up the budget of the day", "Retry-After"),
  503: failure("A limit is reached, the store is unavailable, or the server is stopping", "Retry-After"),
};
export const storeErrors = { ...accessErrors, 500: failure("Unexpected error; the log has the details") };
export const queryErrors = { 400: failure("A query parameter is invalid") };
export const notFound = (resource: string) => ({ 404: failure(`The ${resource} does not exist`) });
export const pageErrors = { 415: failure("A browser page sent a POST without a JSON content type") };
export const bodyErrors = {
  400: failure("The body or one of its fields is invalid"),
  413: failure("The body is too large"),
  415: failure("A browser page sent a body without a JSON content type, or the body is compressed"),
};
