import { asObject, asList, asText } from "../json.js";

const PATH_STEP_PATTERN = /\.([^.[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]/g;
/** Maximum length of an array within arguments; a larger index is ignored. */
const MAX_ARRAY_LENGTH = 10_000;

type Container = Record<string | number, unknown>;

/** Arguments of a call that arrive as single values with their JSON paths, as some Gemini servers stream them. */
export class IncrementalArguments {
  readonly #root: Container = {};

  add(partials: unknown): void {
    for (const entry of asList(partials)) {
      const partial = asObject(entry);
      const steps = [...asText(partial.jsonPath).matchAll(PATH_STEP_PATTERN)].map(([, ...groups]) =>
        groups[1] === undefined ? (groups[0] ?? groups[2] ?? groups[3] ?? "") : Number(groups[1]),
      );
      if (steps.length > 0 && steps.every((step) => typeof step === "string" || step < MAX_ARRAY_LENGTH))
        this.#setValue(steps, partial);
    }
  }

  toString(): string {
    return JSON.stringify(this.#root);
  }

  #setValue(steps: readonly (string | number)[], partial: Readonly<Record<string, unknown>>): void {
    let container = this.#root;
    for (const [index, step] of steps.slice(0, -1).entries()) {
      let next = getOwn(container, step);
      if (typeof next !== "object" || next === null) {
        next = typeof steps[index + 1] === "number" ? [] : {};
        setOwn(container, step, next);
      }
      container = next as Container;
    }
    const lastStep = steps.at(-1)!;
    const previousValue = getOwn(container, lastStep);
    if (typeof partial.stringValue === "string")
      setOwn(
        container,
        lastStep,
        typeof previousValue === "string" ? previousValue + partial.stringValue : partial.stringValue,
      );
    else if (partial.numberValue !== undefined) setOwn(container, lastStep, partial.numberValue);
    else if (partial.boolValue !== undefined) setOwn(container, lastStep, partial.boolValue);
    else if ("nullValue" in partial) setOwn(container, lastStep, null);
  }
}

function getOwn(container: Container, step: string | number): unknown {
  return Object.hasOwn(container, step) ? container[step] : undefined;
}

/** Defines the property, so that names like `__proto__` are safe. */
function setOwn(container: Container, step: string | number, value: unknown): void {
  Object.defineProperty(container, step, { value, writable: true, enumerable: true, configurable: true });
}
