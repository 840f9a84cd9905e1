const WORD = /[([{<]*(?:`([^`\n]{1,300})`|"([^"\n]{1,300})"|“([^”\n]{1,300})”|'([^'\n]{1,300})'(?!\w)|(\S+))/g;
const PUNCTUATION = /^[("'[<{,;:]+|(?:[)"'\]>,;:?!…。、？！]|\.(?!\w)|['’]s)+$/gu;
/** File extensions of bare words. After a slash any extension counts. */
const ENDING =
  /^(?:bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html?|ini|ipynb|java|jsonc?|jsx?|kt|lock|lua|mdx?|mjs|mts|php|py|rb|rs|scss|sh|sql|svelte|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml|zig)$/i;
const FILE = /^(?:Makefile|Dockerfile|LICEN[CS]E|README|CHANGELOG|CONTRIBUTING|SECURITY|NOTICE|\.[a-z][\w.-]*)$/;
const PRODUCT = /^(?:node|next|nuxt|vue|react|three|express|d3)\.js$/i;
const KINDS = new Map(Object.entries({ typescript: "ts", javascript: "js", python: "py", rust: "rs", markdown: "md" }));
const USUAL =
  "(?:src|libs?|tests?|__tests__|specs?|docs?|apps?|packages|examples|scripts|bin|cmd|pkg|public|assets|config|tools|server|client|components|pages|utils|dist|build)";
const ROOTED = new RegExp(`^(?:\\.{0,2}/|${USUAL}/)`);
const FOLDER = new RegExp(
  `\\b(?:in|under|of|list|ls|show|read|open)\\s+(?:the\\s+|me\\s+)?(${USUAL})\\b(?![.\\w/-])|` +
    `\\bthe\\s+(?!(?:current|project|root|same|whole)\\s)([\\w@.-]+)\\s+(?:folder|directory)\\b`,
  "gi",
);

/** Extracts the files, folders and globs that a text names, in order, and other quoted texts. */
export function namesIn(prompt: string): Record<"files" | "folders" | "globs" | "quoted", Set<string>> {
  const names = {
    files: new Set<string>(),
    folders: new Set<string>(),
    globs: new Set<string>(),
    quoted: new Set<string>(),
  };
  for (const [, ...captures] of prompt.matchAll(WORD)) {
    const plain = captures.pop();
    if (plain && plain.length > 300) continue;
    const text = plain?.replace(PUNCTUATION, "") ?? captures.find((quoted) => quoted !== undefined) ?? "";
    const path = text.replace(/(?<=\w):\d.*$/, "").replace(/^\.\/(?=.)/, "");
    const kind = kindOf(path);
    if (kind !== undefined) names[kind].add(path.replace(/(?<=.)\/+$/, ""));
    else if (plain === undefined) names.quoted.add(text);
  }
  for (const [, usual, named = usual] of prompt.matchAll(FOLDER)) if (named) names.folders.add(named);
  for (const [, dot, word = ""] of prompt.matchAll(/(?<=^|\s)`?(\.?)(\w+)`?\s+(?:source\s+)?files\b/gi)) {
    const ending = KINDS.get(word.toLowerCase()) ?? word;
    if (dot || ENDING.test(ending)) names.globs.add(`**/*.${ending}`);
  }
  return names;
}

function kindOf(path: string): "files" | "folders" | "globs" | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(path)) return undefined;
  if (/^[\w@.*?{},[\]!/+-]*$/.test(path) && path.includes("*") && /\w/.test(path)) return "globs";
  if (!/^[\p{L}\p{N}_@.+~/\\-]+$/u.test(path) || !/[\p{L}\p{N}]/u.test(path) || PRODUCT.test(path)) return undefined;
  if (path.startsWith(".") && path !== ".env" && ENDING.test(path.slice(1))) return undefined;
  if (path.endsWith("/")) return "folders";
  const name = path.slice(path.lastIndexOf("/") + 1);
  const [, ending] = /[^.]\.([a-z]\w{0,9})$/i.exec(name) ?? [];
  if (FILE.test(name) || ENDING.test(ending ?? "") || (ending && /^[^/]*\w\/|^\.*\//.test(path))) return "files";
  return ROOTED.test(path) ? "folders" : undefined;
}
