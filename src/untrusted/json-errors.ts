import { JsonError, parseJson } from "../base/json.js";

/** Read by what takes no comments, nor a comma behind the last element. */
const STRICT = /^(?:package|package-lock|npm-shrinkwrap|composer)\.json$/i;
/** JSON5, which is another language, or may be. */
const OTHER =
  /\.json5$|^(?:babel\.config|renovate|\.renovaterc)(?:\.json)?$|^\.(?:babelrc|jscsrc|renovaterc)(?:\.json)?$/i;
/** Settings of a tool, which may take comments and such commas: by their names, and by folders that begin with a point. */
const SETTINGS =
  /\.(?:jsonc|code-workspace|code-snippets|sublime-\w+)$|(?:^|\/)\.[^/]+(?:\/|$)|(?:config|settings|rc|options|rules|launch|tasks|extensions|keybindings|keymap|devcontainer|extractor|deno|biome|turbo|nx|wrangler|angular|project|rush|cspell|lerna|vercel|firebase|typedoc)(?:\.[\w-]+)*\.json$/i;

/** Where a text stops to be JSON, and why. */
export interface JsonFault {
  line: number;
  message: string;
}

/** Files by their paths, as they were and are. */
export interface JsonJob {
  files: readonly { name: string; was: string | null; is: string }[];
}

/** Of each file the fault that is new; null: there is none, or there was one before, which it may be, or it may be meant so. */
export function jsonFaults({ files }: JsonJob): (JsonFault | null)[] {
  return files.map(({ name, was, is }) => {
    const isNew = was === null || was.trim() === "";
    const fault = jsonFault(is, name, isNew ? undefined : was);
    return fault && (isNew || !jsonFault(was, name, was)) ? fault : null;
  });
}

/**
 * Where a text is no JSON, and why; undefined where it is, or may be what the one who reads it takes. `was`: what it was before. In linear
 * time, as `JSON.parse` is.
 */
export function jsonFault(text: string, name: string, was?: string): JsonFault | undefined {
  const last = name.slice(name.lastIndexOf("/") + 1);
  const plain = text.replace(/^\uFEFF/, "");
  // Made by a template, or a value in each line.
  if (OTHER.test(last) || /\{\{|\{%|<%|\$\{/.test(plain)) return undefined;
  const bare = withoutComments(plain);
  if (STRICT.test(last)) return faultOf(plain);
  const fault = faultOf(bare.text);
  if (fault) return areLines(plain) ? undefined : fault;
  // What is wrong for some is a comment or a comma: a comment is meant.
  if (bare.comments || SETTINGS.test(name)) return undefined;
  return was === undefined || !faultOf(was.replace(/^\uFEFF/, "")) ? faultOf(plain) : undefined;
}

function areLines(text: string): boolean {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.length > 1 && !lines.some((line) => faultOf(line));
}

function faultOf(strict: string): JsonFault | undefined {
  // An empty file is what many a program makes before it writes.
  if (strict.trim() === "") return undefined;
  try {
    parseJson(strict, 10_000, Infinity);
    return undefined;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const [, at] = /position (\d+)/.exec(error.message) ?? [];
    const end = at === undefined ? strict.trimEnd().length : Number(at);
    const message = error.message.replace(/ in JSON at position.*$|, "?(\.\.\.)?[^]*is not valid JSON$/, "");
    return { line: strict.slice(0, end).split("\n").length, message };
  }
}

/** With blanks in the place of comments and of commas behind the last element, so that places stay what they are. */
function withoutComments(text: string): { text: string; comments: boolean } {
  let comments = false;
  const out = text.split("");
  let comma = -1;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      comma = -1;
      for (i++; i < text.length && text[i] !== '"' && text[i] !== "\n"; i++) if (text[i] === "\\") i++;
    } else if (char === "/" && (text[i + 1] === "/" || text[i + 1] === "*")) {
      comments = true;
      const isLine = text[i + 1] === "/";
      const found = text.indexOf(isLine ? "\n" : "*/", i + 2);
      const end = found === -1 ? text.length : found + (isLine ? 0 : 2);
      for (let k = i; k < end; k++) if (out[k] !== "\n") out[k] = " ";
      i = end - 1;
    } else if (char === ",") comma = i;
    else if (char === "}" || char === "]") {
      if (comma !== -1) out[comma] = " ";
      comma = -1;
    } else if (char !== undefined && !/\s/.test(char)) comma = -1;
  }
  return { text: out.join(""), comments };
}
