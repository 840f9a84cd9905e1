// Mutations of messages and requests, for tests of clients and servers that are faulty or malicious.

const FRAGMENTS = [
  '"',
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "0",
  "-1",
  "1e999",
  "null",
  "true",
  "\\",
  "\\ud800",
  "\u0000",
  "é",
  "\u{1f600}",
  "__proto__",
  "\r",
  " ",
  "[".repeat(200),
  "9".repeat(40),
  "\r\n",
  "%00",
  "%",
  "../",
  ": ",
  "HTTP/9.9",
  "Host: a\r\n",
  "Content-Length: 5\r\n",
  "chunked",
];

const [LINE_FEED, SPACE] = [10, 32];

const REPLACEMENT_VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  "",
  "x",
  "../..",
  "\ud800",
  [],
  [null],
  {},
  { __proto__: null },
  [[[[{}]]]],
];

/** Replaces a value at a random position, or removes a member. */
function replaceRandomValue(random: () => number, value: unknown): unknown {
  if (typeof value !== "object" || value === null || random() < 0.15)
    return REPLACEMENT_VALUES[Math.floor(random() * REPLACEMENT_VALUES.length)];
  const keys = Object.keys(value);
  const key = keys[Math.floor(random() * keys.length)];
  if (key === undefined) return REPLACEMENT_VALUES[Math.floor(random() * REPLACEMENT_VALUES.length)];
  const copy = structuredClone(value) as Record<string, unknown>;
  if (random() < 0.1) delete copy[key];
  else copy[key] = replaceRandomValue(random, copy[key]);
  return copy;
}

/** Inserts, replaces, repeats, removes or truncates one to four times. The result may be invalid UTF-8. */
export function mutateText(random: () => number, text: string): Buffer {
  const randomBelow = (limit: number) => Math.floor(random() * limit);
  let result = text;
  for (let n = randomBelow(4) + 1; n > 0; n--) {
    const offset = randomBelow(result.length);
    const piece =
      random() < 0.2 ? result.slice(randomBelow(offset + 1), offset) : (FRAGMENTS[randomBelow(FRAGMENTS.length)] ?? "");
    result =
      random() < 0.05
        ? result.slice(0, offset)
        : result.slice(0, offset) + piece + result.slice(offset + randomBelow(6));
  }
  const bytes = Buffer.from(result, "utf8");
  if (random() < 0.1 && bytes.length > 0) bytes[randomBelow(bytes.length)] = randomBelow(256);
  return bytes;
}

/**
 * Returns a mutated message without line feeds, which would end a line of stdio. Half of the results are JSON of a wrong
 * shape, most other results are not JSON.
 */
export function mutateMessage(random: () => number, text: string): Buffer {
  if (random() < 0.5) return Buffer.from(JSON.stringify(replaceRandomValue(random, JSON.parse(text))));
  return mutateText(random, text).map((byte) => (byte === LINE_FEED ? SPACE : byte)) as Buffer;
}
