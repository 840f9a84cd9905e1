import type * as v from "valibot";

/** What is told in a shape: of what nobody changes any more. */
export type Told<Shape extends v.GenericSchema> = Fixed<v.InferOutput<Shape>>;

type Fixed<T> = T extends readonly (infer Item)[]
  ? readonly Fixed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Fixed<T[Key]> }
    : T;
