/** Thrown by `parseJson`. `message` describes the error for the sender of the text. */
export class JsonError extends SyntaxError {}

/** The text exceeds the allowed depth or number of keys. It was not checked for valid JSON. */
export class JsonDepthError extends JsonError {}

/** `JSON.parse` takes 0.5 to 1 s for 400,000 different keys and blocks the event loop meanwhile. */
const MAX_KEYS = 50_000;
const DEFAULT_MAX_DEPTH = 64;

// Codes of the characters that structure JSON.
const QUOTE = 0x22;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** Checks the depth and the number of keys of a JSON text that arrives in pieces. */
export class JsonLimits {
  readonly #maxDepth: number;
  readonly #maxKeys: number;
  #depth = 0;
  #keyCount = 0;
  #isInString = false;
  #isEscaped = false;

  constructor(maxDepth = DEFAULT_MAX_DEPTH, maxKeys = MAX_KEYS) {
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
        if (code === BACKSLASH) this.#isEscaped = true;
        else if (code === QUOTE) this.#isInString = false;
      } else if (code === QUOTE) this.#isInString = true;
      else if (code === OPENING_BRACKET || code === OPENING_BRACE) {
        this.#depth += 1;
        if (this.#depth > this.#maxDepth) throw new JsonDepthError(`nested deeper than ${this.#maxDepth} levels`);
      } else if (code === CLOSING_BRACKET || code === CLOSING_BRACE) this.#depth -= 1;
      else if (code === COLON) {
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
export function parseJson(text: string, maxDepth = DEFAULT_MAX_DEPTH, maxKeys = MAX_KEYS): unknown {
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
