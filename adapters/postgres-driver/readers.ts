import { createHash } from "node:crypto";
import { MAX_INDEXED_BYTES } from "./tables.js";
import { encodeText } from "./text-encoding.js";

/** Returns the value of the column `reader` for the rows of an owner. */
export function toReader(user: string): string {
  const owner = encodeText(user);
  return Buffer.byteLength(owner) <= MAX_INDEXED_BYTES ? `owner:${owner}` : `long:${hashText(owner)}`;
}

/** Lists the values of the column `reader` in the rows that a user may see: the user's own rows and the shared ones. */
export function listReaders(user: string): [ownReader: string, sharedReader: string] {
  return [toReader(user), "shared"];
}

/** Returns the same hash as the triggers of the tables. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
