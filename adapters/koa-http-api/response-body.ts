import type * as v from "valibot";

/** Deeply read-only output of a shape, for response bodies. */
export type ResponseBody<Shape extends v.GenericSchema> = DeepReadonly<v.InferOutput<Shape>>;

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
