// Builders of the shapes in `request-shapes.ts`, `response-shapes.ts` and `event-shapes.ts`.

import * as v from "valibot";

export const optional = v.optional;
export const oneOf = v.picklist;
export const string = v.string();
export const describe = <Shape extends v.GenericSchema>(shape: Shape, meaning: string) =>
  v.pipe(shape, v.description(meaning));
export const text = (meaning: string) => describe(string, meaning);
export const time = (meaning: string) => text(`${meaning}; ISO 8601 UTC`);
export const extend = <BaseEntries extends v.ObjectEntries, AddedEntries extends v.ObjectEntries>(
  shape: { entries: BaseEntries },
  addedEntries: AddedEntries,
) => v.object({ ...shape.entries, ...addedEntries });
export const count = v.pipe(v.number(), v.integer(), v.minValue(0));
