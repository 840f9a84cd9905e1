/**
 * All shapes on the wire of the HTTP API. The server reads requests with these schemas, the types are inferred from
 * them, and `openapi.ts` describes them. Fields have their wire names; OpenAPI shows the descriptions.
 *
 * The server imports only types from this file, because the schemas of answers and events would slow down a first run.
 */
import type * as v from "valibot";

export * from "./all-event-shapes.js";
export * from "./event-shapes.js";
export * from "./mcp-shapes.js";
export * from "./request-shapes.js";
export * from "./response-shapes.js";
export * from "./rewind-shapes.js";
export * from "./work-shapes.js";
export * from "./search-shapes.js";
export * from "./worktree-shapes.js";

/** Deeply read-only output of a shape, for response bodies. */
export type ResponseBody<Shape extends v.GenericSchema> = DeepReadonly<v.InferOutput<Shape>>;

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
