import type * as v from "valibot";

/** Deeply read-only output of a shape, for response bodies. */
export type ResponseBody<Shape extends v.GenericSchema> = Fixed<v.InferOutput<Shape>>;

type Fixed<T> = T extends readonly (infer Item)[]
  ? readonly Fixed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Fixed<T[Key]> }
    : T;
