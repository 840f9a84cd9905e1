/** What a prompt names, in the order named. */
export interface Mentions {
  files: FileMention[];
  folders: string[];
  globs: string[];
  /** In quotes or backticks, and no path. */
  quoted: string[];
}

export interface FileMention {
  path: string;
  /** Lines asked for, from 1. */
  from?: number;
  to?: number;
}

/** Endings that make a bare word a file name; with a slash or in quotes any ending does. */
const ENDINGS = new Set(
  (
    "astro bash bat c cc cfg clj cjs conf cpp cs css csv cts cxx dart env ex exs fish go gradle graphql h hpp hs htm html ini " +
    "ipynb java js json json5 jsonc jsx kt kts less lock lua m md mdx mjs mk mod mts nix php pl proto ps1 py r rb rs rst sass " +
    "scala scss sh sql sum svelte svg swift tf toml ts tsx txt vue xml yaml yml zig zsh"
  ).split(" "),
);
const NAMES =
  /^(?:Makefile|Dockerfile|Containerfile|Jenkinsfile|Vagrantfile|Procfile|Gemfile|Rakefile|Justfile|LICENSE|LICENCE|README|CHANGELOG|CONTRIBUTING|SECURITY|NOTICE|AUTHORS|CODEOWNERS)$/;
const PRODUCTS =
  /^(?:node|next|nuxt|vue|react|three|express|ember|backbone|angular|d3|deno|chart|moment|asp)\.(?:js|net)$/i;
const FOLDERS =
  "src|source|lib|libs|test|tests|__tests__|spec|specs|doc|docs|app|apps|packages|adapters|examples|scripts|bin|cmd|pkg|internal|public|assets|config|tools|server|client|components|pages|utils|dist|build";
const LOCATION = /^(.+?)(?::(\d+)(?:[-:](\d+))?|#L(\d+)(?:-L?(\d+))?)$/;
const QUOTED =
  /`([^`\n]{1,300})`|"([^"\n]{1,300})"|“([^”\n]{1,300})”|(?<![\p{L}\p{N}])'([^'\n]{1,300})'(?![\p{L}\p{N}])/gu;

export function mentionsOf(prompt: string): Mentions {
  const mentions: Mentions = { files: [], folders: [], globs: [], quoted: [] };
  const unquoted = prompt.replace(QUOTED, (_match, ...groups: (string | number | undefined)[]) => {
    const text = (groups.slice(0, 4).find((group) => typeof group === "string") ?? "").trim();
    if (!takePath(text, true, mentions)) mentions.quoted.push(text);
    // A mark stays, so that words on both sides do not become neighbours.
    return " ␟ ";
  });
  for (const word of unquoted.split(/\s+/)) takePath(trimmed(word), false, mentions);
  for (const pattern of [
    new RegExp(
      `\\b(?:in|inside|under|within|of|list|ls|show|from|read|open|cat)\\s+(?:the\\s+)?(${FOLDERS})\\b(?![.\\w/-])`,
      "gi",
    ),
    /\b(?:the|in|of|under|inside|list)\s+([\w@.-]+)\s+(?:folder|directory|dir)\b/gi,
    /\b(?:folder|directory|dir)\s+(?:named\s+|called\s+)?([\w@.-]+(?:\/[\w@.-]+)*)/gi,
  ]) {
    for (const [, name = ""] of unquoted.matchAll(pattern)) {
      const folder = trimmed(name);
      if (!NO_FOLDER.test(folder)) add(mentions.folders, folder);
    }
  }
  return mentions;
}

const NO_FOLDER =
  /^(?:|a|an|and|are|contains?|current|do|does|for|has|have|here|holds?|in|is|it|my|named|of|or|our|project|root|same|structure|that|the|there|this|to|top|tree|we|which|whole|with|working|your)$/i;

function takePath(text: string, quoted: boolean, mentions: Mentions): boolean {
  if (text === "" || text.length > 300 || /[\s\0]/.test(text) || /^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return false;
  if (/[*]/.test(text) && /^[\w@.*?{},[\]!/+-]+$/.test(text)) {
    if (/^\*+$/.test(text)) return false;
    add(mentions.globs, text);
    return true;
  }
  const [, place, from1, to1, from2, to2] = LOCATION.exec(text) ?? [];
  const path = (place ?? text).replace(/^\.\/(?=.)/, "");
  const [from, to] = [Number(from1 ?? from2), Number(to1 ?? to2)];
  if (!/^[\p{L}\p{N}_@.+~/\\-]+$/u.test(path)) return false;

  if (/^\.[a-z0-9]+$/i.test(path) && ENDINGS.has(path.slice(1).toLowerCase()) && path !== ".env") {
    add(mentions.globs, `**/*${path}`);
    return true;
  }
  if (path.length > 1 && path.endsWith("/")) {
    add(mentions.folders, path.replace(/\/+$/, ""));
    return true;
  }
  if (isFile(path, quoted)) {
    if (!mentions.files.some((file) => file.path === path)) {
      mentions.files.push({ path, ...(from > 0 ? { from, to: to >= from ? to : from } : {}) });
    }
    return true;
  }
  const rooted = new RegExp(`^(?:\\.{1,2}/|/|(?:${FOLDERS})/)`);
  if (path.includes("/") && (quoted || rooted.test(path)) && /[\p{L}\p{N}]/u.test(path)) {
    add(mentions.folders, path);
    return true;
  }
  return false;
}

function isFile(path: string, quoted: boolean): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (NAMES.test(name)) return true;
  if (!quoted && PRODUCTS.test(path)) return false;
  // Dot files: .gitignore, .env, .prettierrc.
  if (/^\.[a-z][\w.-]*$/i.test(name)) return true;
  const ending = /^.*[^.]\.([A-Za-z]\w{0,9})$/.exec(name)?.[1];
  return ending !== undefined && (ENDINGS.has(ending.toLowerCase()) || (path.includes("/") && !/^www\./i.test(path)));
}

/** Without the punctuation of the sentence around it. */
export function trimmed(word: string): string {
  return word.replace(/^[("'[<{¿¡,;:]+/, "").replace(/(?:[)"'\]>,;:?!…。、？！]|\.(?!\w)|'s|’s)+$/u, "");
}

function add(list: string[], entry: string): void {
  if (!list.includes(entry)) list.push(entry);
}
