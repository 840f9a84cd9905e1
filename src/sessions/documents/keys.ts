/** Encodes an id as a part of a key: unique, without `/`. */
function part(id: string): string {
  return id.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Kinds of documents that can change without the head of one chain: they determine the owner of an id. */
const SHARED: ReadonlySet<string> = new Set([
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

/** Whether a commit compares the document. For the others the comparison of their chain's head is sufficient. */
export function isShared(key: string): boolean {
  return SHARED.has(key.slice(0, key.indexOf("/")));
}

/** Kinds of documents with message content. All others are small. */
const CONTENT: ReadonlySet<string> = new Set(["segment", "growth", "view"]);

/**
 * Id of the chain whose messages a document contains; undefined for a small document, which lists and every run need.
 */
export function contentChain(key: string): string | undefined {
  const start = key.indexOf("/") + 1;
  if (!CONTENT.has(key.slice(0, start - 1))) return undefined;
  const end = key.indexOf("/", start);
  const chain = end < 0 ? key.slice(start) : key.slice(start, end);
  return chain.includes("%") ? chain.replaceAll("%2F", "/").replaceAll("%25", "%") : chain;
}

export const keys = {
  head: (root: string) => `head/${part(root)}`,
  chain: (root: string) => `chain/${part(root)}`,
  segments: (root: string) => `segments/${part(root)}`,
  segment: (root: string, first: number) => `segment/${part(root)}/${first}`,
  growth: (root: string, messageId: string, piece: number) => `growth/${part(root)}/${part(messageId)}:${piece}`,
  session: (id: string) => `session/${part(id)}`,
  view: (root: string, id: string) => `view/${part(root)}/${part(id)}`,
  alias: (alias: string) => `alias/${part(alias)}`,
  run: (root: string, id: string) => `run/${part(root)}/${part(id)}`,
  runId: (id: string) => `run-id/${part(id)}`,
  runKey: (key: string) => `run-key/${part(key)}`,
  ask: (root: string, id: string) => `ask/${part(root)}/${part(id)}`,
  askId: (id: string) => `ask-id/${part(id)}`,
  instructionId: (id: string) => `instruction-id/${part(id)}`,
  fence: "fence/last",
  allHeads: "head/",
  allRuns: "run/",
  runsOf: (root: string) => `run/${part(root)}/`,
  allRunKeys: "run-key/",
  allAsks: "ask/",
  asksOf: (root: string) => `ask/${part(root)}/`,
  allSessions: "session/",
} as const;
