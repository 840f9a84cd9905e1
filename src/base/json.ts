/** Thrown by `parseJson`. `message` states the position, for the sender of the text. */
export class JsonError extends SyntaxError {}

/** The text exceeds the allowed depth or number of keys. It was not checked for valid JSON. */
export class JsonDepthError extends JsonError {}

/** `JSON.parse` takes 0.5 to 1 s for 400,000 different keys and blocks the event loop meanwhile. */
const MAX_KEYS = 50_000;

/** Checks the depth and the number of keys of a JSON text that arrives in pieces. */
export class JsonLimits {
  readonly #maxDepth: number;
  readonly #maxKeys: number;
  #depth = 0;
  #keyCount = 0;
  #isInString = false;
  #isEscaped = false;

  constructor(maxDepth = 64, maxKeys = MAX_KEYS) {
    this.#maxDepth = maxDepth;
    this.#maxKeys = maxKeys;
  }

  /** Reads the next piece, as text or UTF-8 bytes. Throws `JsonDepthError`. */
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
        this.#keyCount += 1;
        if (this.#keyCount > this.#maxKeys) throw new JsonDepthError(`more than ${this.#maxKeys} keys`);
      }
    }
  }
}

/**
 * Parses JSON with at most `maxDepth` nested arrays and objects and at most `maxKeys` keys in total. Throws
 * `JsonError`.
 *
 * `JSON.parse` itself accepts hundreds of thousands of levels, but writing such a value as JSON later overflows the
 * stack.
 */
export function parseJson(text: string, maxDepth = 64, maxKeys = MAX_KEYS): unknown {
  new JsonLimits(maxDepth, maxKeys).scan(text);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new JsonError(error instanceof Error ? error.message : "not JSON", { cause: error });
  }
}

/** Whether a value is an object and not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
