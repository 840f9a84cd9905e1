import { asObject, asList, asText } from "../json.js";

const STEP = /\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]/g;
/** Maximum length of an array within arguments; a larger index is ignored. */
const MAX_ARRAY_LENGTH = 10_000;

type Holder = Record<string | number, unknown>;

/** Arguments of a call that arrive as single values with their JSON paths, as some Gemini servers stream them. */
export class IncrementalArguments {
  readonly #root: Holder = {};

  add(partials: unknown): void {
    for (const entry of asList(partials)) {
      const partial = asObject(entry);
      const steps = [...asText(partial.jsonPath).matchAll(STEP)].map(([, ...groups]) =>
        groups[1] === undefined ? (groups[0] ?? groups[2] ?? groups[3] ?? "") : Number(groups[1]),
      );
      if (steps.length > 0 && steps.every((step) => typeof step === "string" || step < MAX_ARRAY_LENGTH))
        this.#put(steps, partial);
    }
  }

  toString(): string {
    return JSON.stringify(this.#root);
  }

  #put(steps: readonly (string | number)[], partial: Readonly<Record<string, unknown>>): void {
    let holder = this.#root;
    for (const [index, step] of steps.slice(0, -1).entries()) {
      let next = getOwn(holder, step);
      if (typeof next !== "object" || next === null) {
        next = typeof steps[index + 1] === "number" ? [] : {};
        put(holder, step, next);
      }
      holder = next as Holder;
    }
    const last = steps.at(-1)!;
    const before = getOwn(holder, last);
    if (typeof partial.stringValue === "string")
      put(holder, last, typeof before === "string" ? before + partial.stringValue : partial.stringValue);
    else if (partial.numberValue !== undefined) put(holder, last, partial.numberValue);
    else if (partial.boolValue !== undefined) put(holder, last, partial.boolValue);
    else if ("nullValue" in partial) put(holder, last, null);
  }
}

function getOwn(holder: Holder, step: string | number): unknown {
  return Object.hasOwn(holder, step) ? holder[step] : undefined;
}

/** Defines the property, so that names like `__proto__` are safe. */
function put(holder: Holder, step: string | number, value: unknown): void {
  Object.defineProperty(holder, step, { value, writable: true, enumerable: true, configurable: true });
}
