import { createHash } from "node:crypto";
import { MAX_INDEXED_BYTES } from "./tables.js";
import { encodeText } from "./text-encoding.js";

/** Lists the values of the column `reader` in the rows that a user may see: the user's own rows and the shared ones. */
export function listReaders(user: string): [ownReader: string, sharedReader: string] {
  const owner = encodeText(user);
  const isShort = Buffer.byteLength(owner) <= MAX_INDEXED_BYTES;
  return [isShort ? `owner:${owner}` : `long:${hashText(owner)}`, "shared"];
}

/** Returns the same hash as the triggers of the tables. */
export function hashText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
