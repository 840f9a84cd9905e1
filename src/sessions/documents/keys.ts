/** Encodes an id as a part of a key: unique, without `/`. */
function encodePart(id: string): string {
  return id.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Kinds of documents that can change without the head of one chain: they determine the owner of an id. */
const SHARED_KINDS: ReadonlySet<string> = new Set([
  "head",
  "session",
  "alias",
  "run-id",
  "run-key",
  "ask-id",
  "instruction-id",
  "fence",
  // A change that only appends text does not write the head.
  "growth",
]);

/** Whether a commit compares the document. For other documents the comparison of the chain's head is sufficient. */
export function isShared(key: string): boolean {
  return SHARED_KINDS.has(key.slice(0, key.indexOf("/")));
}

/** Kinds of documents with message content. All others are small. */
const CONTENT_KINDS: ReadonlySet<string> = new Set(["segment", "growth", "view"]);

/**
 * Returns the id of the chain whose messages a document contains. Undefined for a small document, which lists and every
 * run need.
 */
export function contentChain(key: string): string | undefined {
  const start = key.indexOf("/") + 1;
  if (!CONTENT_KINDS.has(key.slice(0, start - 1))) return undefined;
  const end = key.indexOf("/", start);
  const chain = end < 0 ? key.slice(start) : key.slice(start, end);
  return chain.includes("%") ? chain.replaceAll("%2F", "/").replaceAll("%25", "%") : chain;
}

/**
 * Creates the keys of documents. Members without parameters are a fixed key or a prefix. `root`: root id of a chain.
 */
export const keys = {
  head: (root: string) => `head/${encodePart(root)}`,
  chain: (root: string) => `chain/${encodePart(root)}`,
  segments: (root: string) => `segments/${encodePart(root)}`,
  segment: (root: string, first: number) => `segment/${encodePart(root)}/${first}`,
  growth: (root: string, messageId: string, piece: number) =>
    `growth/${encodePart(root)}/${encodePart(messageId)}:${piece}`,
  session: (id: string) => `session/${encodePart(id)}`,
  view: (root: string, id: string) => `view/${encodePart(root)}/${encodePart(id)}`,
  alias: (alias: string) => `alias/${encodePart(alias)}`,
  run: (root: string, id: string) => `run/${encodePart(root)}/${encodePart(id)}`,
  runId: (id: string) => `run-id/${encodePart(id)}`,
  runKey: (key: string) => `run-key/${encodePart(key)}`,
  ask: (root: string, id: string) => `ask/${encodePart(root)}/${encodePart(id)}`,
  askId: (id: string) => `ask-id/${encodePart(id)}`,
  instructionId: (id: string) => `instruction-id/${encodePart(id)}`,
  fence: "fence/last",
  allHeads: "head/",
  allRuns: "run/",
  runsOf: (root: string) => `run/${encodePart(root)}/`,
  allRunKeys: "run-key/",
  allAsks: "ask/",
  asksOf: (root: string) => `ask/${encodePart(root)}/`,
  allSessions: "session/",
} as const;
