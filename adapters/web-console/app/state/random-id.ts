const ID_BYTES = 16;

/** A random id. `crypto.randomUUID` does not exist on plain HTTP, except on loopback. */
export function createRandomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(ID_BYTES)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
