/** Thrown by `parseJson`; `message` says where, in words for whoever sent the text. */
export class JsonError extends SyntaxError {}

/** Nested deeper, or with more keys, than allowed; whether it is JSON at all was not looked at. */
export class JsonDepthError extends JsonError {}

/** `JSON.parse` takes 0.5 to 1 s for 400,000 different keys, and nothing else runs meanwhile. */
const MAX_KEYS = 50_000;

/**
 * Parse JSON no deeper than `maxDepth` arrays and objects, with at most `maxKeys` keys in all. `JSON.parse` itself takes
 * hundreds of thousands of levels, and whoever writes such a value out again later dies of it.
 */
export function parseJson(text: string, maxDepth = 64, maxKeys = MAX_KEYS): unknown {
  let depth = 0;
  let keys = 0;
  let inString = false;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === 0x5c) i += 1;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x5b || code === 0x7b) {
      depth += 1;
      if (depth > maxDepth) throw new JsonDepthError(`nested deeper than ${maxDepth} levels`);
    } else if (code === 0x5d || code === 0x7d) depth -= 1;
    else if (code === 0x3a) {
      keys += 1;
      if (keys > maxKeys) throw new JsonDepthError(`more than ${maxKeys} keys`);
    }
  }
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
