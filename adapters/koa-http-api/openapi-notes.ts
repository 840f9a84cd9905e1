import type { ShapeName } from "./openapi-shapes.js";

interface Note {
  description?: string;
  properties?: Readonly<Record<string, object>>;
}

/**
 * Constraints that the schemas do not express, because the operations check them. Merged over the schemas of the
 * document.
 */
export const NOTES: Readonly<Partial<Record<ShapeName, Note>>> = {
  Budget: {
    description: "What the run may take at most. What is left out is not bounded; a field that is not here is refused",
    properties: {
      usd: { maximum: 1_000_000, description: "US dollars; the price of the model must be known" },
      tokens: { type: "integer", maximum: 1_000_000_000_000, description: "prompt and completion tokens" },
      seconds: { maximum: 1_000_000, description: "from the run's begin" },
    },
  },
  SessionChange: {
    description:
      'What is left out stays, and `""` counts as left out, but for a title. `provider` and `model` go together: one without the other is refused with 400',
    properties: {
      title: { description: "one line of visible text, of at most 50 characters; no other is generated then" },
    },
  },
};
