import type { ShapeName } from "./openapi-shapes.js";

interface Note {
  description?: string;
  properties?: Readonly<Record<string, object>>;
}

/**
 * Constraints that the schemas do not express, because the operations check them. The document merges the notes over
 * its schemas.
 */
export const NOTES: Readonly<Partial<Record<ShapeName, Note>>> = {
  Budget: {
    description: "The maximum that the run may use. A missing field sets no limit; an unknown field is rejected",
    properties: {
      usd: { maximum: 1_000_000, description: "US dollars; the price of the model must be known" },
      tokens: { type: "integer", maximum: 1_000_000_000_000, description: "prompt and completion tokens" },
      seconds: { maximum: 1_000_000, description: "from the start of the run" },
    },
  },
  SessionChange: {
    description:
      'A missing field is not changed. `""` counts as missing, except for a title. `provider` and `model` must be sent together: one alone is rejected with 400',
    properties: {
      title: { description: "one line of visible text, at most 50 characters; no title is generated after that" },
    },
  },
};
