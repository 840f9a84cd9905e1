/** Thrown by `parseJson`; `message` says where, in words for whoever sent the text. */
export class JsonError extends SyntaxError {}

/** Nested deeper, or with more keys, than allowed; whether it is JSON at all was not looked at. */
export class JsonDepthError extends JsonError {}

/** `JSON.parse` takes 0.5 to 1 s for 400,000 different keys, and nothing else runs meanwhile. */
const MAX_KEYS = 50_000;

/** Counts the levels and the keys of a JSON text that comes in pieces. */
export class JsonLimits {
  readonly #maxDepth: number;
  readonly #maxKeys: number;
  #depth = 0;
  #keys = 0;
  #isInString = false;
  #isEscaped = false;

  constructor(maxDepth = 64, maxKeys = MAX_KEYS) {
    this.#maxDepth = maxDepth;
    this.#maxKeys = maxKeys;
  }

  /** The next piece of the text, or of its UTF-8. Throws `JsonDepthError`. */
  scan(piece: string | Uint8Array): void {
    const isText = typeof piece === "string";
    for (let i = 0; i < piece.length; i += 1) {
      const code = isText ? piece.charCodeAt(i) : piece[i];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isInString) {
        if (code === 0x5c) this.#isEscaped = true;
        else if (code === 0x22) this.#isInString = false;
      } else if (code === 0x22) this.#isInString = true;
      else if (code === 0x5b || code === 0x7b) {
        this.#depth += 1;
        if (this.#depth > this.#maxDepth) throw new JsonDepthError(`nested deeper than ${this.#maxDepth} levels`);
      } else if (code === 0x5d || code === 0x7d) this.#depth -= 1;
      else if (code === 0x3a) {
        this.#keys += 1;
        if (this.#keys > this.#maxKeys) throw new JsonDepthError(`more than ${this.#maxKeys} keys`);
      }
    }
  }
}

/**
 * Parse JSON no deeper than `maxDepth` arrays and objects, with at most `maxKeys` keys in all. `JSON.parse` itself takes
 * hundreds of thousands of levels, and whoever writes such a value out again later dies of it.
 */
export function parseJson(text: string, maxDepth = 64, maxKeys = MAX_KEYS): unknown {
  new JsonLimits(maxDepth, maxKeys).scan(text);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new JsonError(error instanceof Error ? error.message : "not JSON", { cause: error });
  }
}

/** Whether a value is an object that is no array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
