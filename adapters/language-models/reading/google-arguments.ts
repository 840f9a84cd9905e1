import { bag, list, text } from "../json.js";

const STEP = /\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]/g;
/** Longest list within arguments; a place beyond it is no place. */
const MOST = 10_000;

type Holder = Record<string | number, unknown>;

/** Arguments of a call that come value by value, each with its place, as some Gemini servers stream them. */
export class PlacedArguments {
  readonly #root: Holder = {};

  add(partials: unknown): void {
    for (const entry of list(partials)) {
      const partial = bag(entry);
      const steps = [...text(partial.jsonPath).matchAll(STEP)].map(([, ...found]) =>
        found[1] === undefined ? (found[0] ?? found[2] ?? found[3] ?? "") : Number(found[1]),
      );
      if (steps.length > 0 && steps.every((step) => typeof step === "string" || step < MOST)) this.#put(steps, partial);
    }
  }

  toString(): string {
    return JSON.stringify(this.#root);
  }

  #put(steps: readonly (string | number)[], partial: Readonly<Record<string, unknown>>): void {
    let holder = this.#root;
    for (const [index, step] of steps.slice(0, -1).entries()) {
      let next = own(holder, step);
      if (typeof next !== "object" || next === null) {
        next = typeof steps[index + 1] === "number" ? [] : {};
        put(holder, step, next);
      }
      holder = next as Holder;
    }
    const last = steps.at(-1)!;
    const before = own(holder, last);
    if (typeof partial.stringValue === "string")
      put(holder, last, typeof before === "string" ? before + partial.stringValue : partial.stringValue);
    else if (partial.numberValue !== undefined) put(holder, last, partial.numberValue);
    else if (partial.boolValue !== undefined) put(holder, last, partial.boolValue);
    else if ("nullValue" in partial) put(holder, last, null);
  }
}

function own(holder: Holder, step: string | number): unknown {
  return Object.hasOwn(holder, step) ? holder[step] : undefined;
}

/** Also under names that objects have of their own. */
function put(holder: Holder, step: string | number, value: unknown): void {
  Object.defineProperty(holder, step, { value, writable: true, enumerable: true, configurable: true });
}
