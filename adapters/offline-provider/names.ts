/** A quoted text, or a word without white space. */
const WORD_PATTERN = /[([{<]*(?:`([^`\n]{1,300})`|"([^"\n]{1,300})"|“([^”\n]{1,300})”|'([^'\n]{1,300})'(?!\w)|(\S+))/g;
/** Punctuation around a word. */
const PUNCTUATION_PATTERN = /^[("'[<{,;:]+|(?:[)"'\]>,;:?!…。、？！]|\.(?!\w)|['’]s)+$/gu;
/** File extensions of bare words. After a slash any extension counts. */
const EXTENSION_PATTERN =
  /^(?:bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html?|ini|ipynb|java|jsonc?|jsx?|kt|lock|lua|mdx?|mjs|mts|php|py|rb|rs|scss|sh|sql|svelte|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml|zig)$/i;
const FILE_NAME_PATTERN =
  /^(?:Makefile|Dockerfile|LICEN[CS]E|README|CHANGELOG|CONTRIBUTING|SECURITY|NOTICE|\.[a-z][\w.-]*)$/;
/** Names of products that look like files. */
const PRODUCT_NAME_PATTERN = /^(?:node|next|nuxt|vue|react|three|express|d3)\.js$/i;
const EXTENSIONS_BY_LANGUAGE = new Map(
  Object.entries({ typescript: "ts", javascript: "js", python: "py", rust: "rs", markdown: "md" }),
);
const COMMON_FOLDERS =
  "(?:src|libs?|tests?|__tests__|specs?|docs?|apps?|packages|examples|scripts|bin|cmd|pkg|public|assets|config|tools|server|client|components|pages|utils|dist|build)";
const FOLDER_PATH_PATTERN = new RegExp(`^(?:\\.{0,2}/|${COMMON_FOLDERS}/)`);
const FOLDER_MENTION_PATTERN = new RegExp(
  `\\b(?:in|under|of|list|ls|show|read|open)\\s+(?:the\\s+|me\\s+)?(${COMMON_FOLDERS})\\b(?![.\\w/-])|` +
    `\\bthe\\s+(?!(?:current|project|root|same|whole)\\s)([\\w@.-]+)\\s+(?:folder|directory)\\b`,
  "gi",
);

const MAX_NAME_CHARACTERS = 300;

/** Extracts the files, folders and globs that a text names, in order, and other quoted texts. */
export function extractNames(prompt: string): Record<"files" | "folders" | "globs" | "quoted", Set<string>> {
  const names = {
    files: new Set<string>(),
    folders: new Set<string>(),
    globs: new Set<string>(),
    quoted: new Set<string>(),
  };
  for (const [, ...captures] of prompt.matchAll(WORD_PATTERN)) {
    const unquotedWord = captures.pop();
    if (unquotedWord && unquotedWord.length > MAX_NAME_CHARACTERS) continue;
    const text =
      unquotedWord?.replace(PUNCTUATION_PATTERN, "") ?? captures.find((capture) => capture !== undefined) ?? "";
    const path = text.replace(/(?<=\w):\d.*$/, "").replace(/^\.\/(?=.)/, "");
    const kind = kindOf(path);
    if (kind !== undefined) names[kind].add(path.replace(/(?<=.)\/+$/, ""));
    else if (unquotedWord === undefined) names.quoted.add(text);
  }
  for (const [, commonFolder, folderName = commonFolder] of prompt.matchAll(FOLDER_MENTION_PATTERN))
    if (folderName) names.folders.add(folderName);
  for (const [, dot, word = ""] of prompt.matchAll(/(?<=^|\s)`?(\.?)(\w+)`?\s+(?:source\s+)?files\b/gi)) {
    const extension = EXTENSIONS_BY_LANGUAGE.get(word.toLowerCase()) ?? word;
    if (dot || EXTENSION_PATTERN.test(extension)) names.globs.add(`**/*.${extension}`);
  }
  return names;
}

function kindOf(path: string): "files" | "folders" | "globs" | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(path)) return undefined;
  if (/^[\w@.*?{},[\]!/+-]*$/.test(path) && path.includes("*") && /\w/.test(path)) return "globs";
  if (!/^[\p{L}\p{N}_@.+~/\\-]+$/u.test(path) || !/[\p{L}\p{N}]/u.test(path) || PRODUCT_NAME_PATTERN.test(path))
    return undefined;
  if (path.startsWith(".") && path !== ".env" && EXTENSION_PATTERN.test(path.slice(1))) return undefined;
  if (path.endsWith("/")) return "folders";
  const name = path.slice(path.lastIndexOf("/") + 1);
  const [, extension] = /[^.]\.([a-z]\w{0,9})$/i.exec(name) ?? [];
  if (
    FILE_NAME_PATTERN.test(name) ||
    EXTENSION_PATTERN.test(extension ?? "") ||
    (extension && /^[^/]*\w\/|^\.*\//.test(path))
  )
    return "files";
  return FOLDER_PATH_PATTERN.test(path) ? "folders" : undefined;
}
