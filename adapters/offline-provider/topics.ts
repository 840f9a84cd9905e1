/** Something that people ask of a manifest, and the fields that say it. */
export interface Topic {
  words: RegExp;
  /** Fields that answer. */
  keys: readonly string[];
  /** Fields that answer in their stead when there is none of them. */
  otherwise: readonly string[];
  /** Means the project's manifest also where no file is named. */
  alone: boolean;
}

const TOPICS: readonly Topic[] = [
  {
    words: /\bmain (?:entry|file|module|field)\b|\bentry ?-?(?:point|file)s?\b|\bmain entry\b|["'`]main["'`]/i,
    keys: ["main"],
    otherwise: ["exports", "module", "bin"],
    alone: true,
  },
  {
    words: /\bbin\b|\bexecutables?\b|\bcommand(?:s| name)? (?:does|is|are) (?:it|installed)/i,
    keys: ["bin"],
    otherwise: [],
    alone: false,
  },
  { words: /\bexports?\b/i, keys: ["exports"], otherwise: ["main"], alone: false },
  {
    words: /\b(?:npm |package )?scripts?\b|\bhow (?:do|can|to)\b[^.?!\n]{0,20}\b(?:run|build|test|start|lint)\b/i,
    keys: ["scripts"],
    otherwise: [],
    alone: true,
  },
  {
    words: /\bdependenc(?:y|ies)\b|\bdepends? on\b|\bpackages? (?:does|do) (?:it|this)\b/i,
    keys: ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"],
    otherwise: [],
    alone: true,
  },
  { words: /\blicen[cs]e\b/i, keys: ["license"], otherwise: [], alone: false },
  {
    words: /\b(?:node(?:\.js)?|engine) version|\bengines?\b|\bversion of node\b/i,
    keys: ["engines"],
    otherwise: [],
    alone: true,
  },
  { words: /\b(?<!node |node\.js |engine )version\b(?! of node)/i, keys: ["version"], otherwise: [], alone: false },
  { words: /\b(?:package|project)(?:'s|’s)? name\b|\bcalled\b/i, keys: ["name"], otherwise: [], alone: false },
  { words: /\bdescription\b/i, keys: ["description"], otherwise: [], alone: false },
  { words: /\bkeywords\b/i, keys: ["keywords"], otherwise: [], alone: false },
  { words: /\bworkspaces\b/i, keys: ["workspaces"], otherwise: [], alone: false },
];

export function topicsOf(prompt: string): Topic[] {
  return TOPICS.filter(({ words }) => words.test(prompt));
}

/** Manifests in the order in which they are looked for. */
export const MANIFESTS = [
  "package.json",
  "pyproject.toml",
  "Cargo.toml",
  "go.mod",
  "composer.json",
  "pom.xml",
] as const;

/** What a manifest's text says about the topics, quoted; undefined when it is no JSON object. */
export function fieldsOf(text: string, topics: readonly Topic[]): { quotes: string[]; missing: string[] } | undefined {
  let fields: Record<string, unknown>;
  try {
    const parsed = JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)) as unknown;
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return undefined;
    fields = parsed as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const quotes: string[] = [];
  const missing: string[] = [];
  const seen = new Set<string>();
  for (const topic of topics) {
    const present = topic.keys.filter((key) => Object.hasOwn(fields, key));
    const instead = present.length > 0 ? [] : topic.otherwise.filter((key) => Object.hasOwn(fields, key));
    if (present.length === 0) missing.push(...topic.keys.slice(0, 1));
    for (const key of [...present, ...instead]) {
      if (!seen.has(key)) quotes.push(quote(text, key, fields[key]));
      seen.add(key);
    }
  }
  return { quotes, missing };
}

/** A field as the file has it: its own line where it fits into one. */
function quote(text: string, key: string, value: unknown): string {
  const name = JSON.stringify(key);
  if (typeof value !== "object" || value === null) {
    const line = text.split("\n").find((candidate) => candidate.trimStart().startsWith(name));
    if (line !== undefined) return line.trim().replace(/,$/, "");
  }
  return `${name}: ${JSON.stringify(value, null, 2)}`;
}
