import { InputError } from "../../ports/errors.js";

/** Encodes the position after which the next page starts. */
export function encodeSearchCursor(position: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(position)).toString("base64url");
}

/**
 * Decodes a cursor. Throws `InputError` if the cursor does not have values of the same types as `example`, in this
 * order.
 */
export function decodeSearchCursor<Position extends readonly (string | number)[]>(
  cursor: string,
  example: Position,
): Position {
  try {
    const position: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (
      Array.isArray(position) &&
      position.length === example.length &&
      position.every((value, index) => typeof value === typeof example[index])
    )
      return position as unknown as Position;
  } catch {
    // Not JSON: invalid as well.
  }
  throw new InputError("before", "the cursor of an earlier page of this search");
}
