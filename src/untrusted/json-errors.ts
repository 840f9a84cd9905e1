import { JsonError, parseJson } from "../base/json.js";

/** Files that are read as strict JSON, without comments or trailing commas. */
const STRICT = /^(?:package|package-lock|npm-shrinkwrap|composer)\.json$/i;
/** Files that are or may be JSON5, a different language. */
const JSON5_NAMES =
  /\.json5$|^(?:babel\.config|renovate|\.renovaterc)(?:\.json)?$|^\.(?:babelrc|jscsrc|renovaterc)(?:\.json)?$/i;
/**
 * Tool settings, which may contain comments and trailing commas. Recognized by name, and by folders that begin with a
 * dot.
 */
const SETTINGS =
  /\.(?:jsonc|code-workspace|code-snippets|sublime-\w+)$|(?:^|\/)\.[^/]+(?:\/|$)|(?:config|settings|rc|options|rules|launch|tasks|extensions|keybindings|keymap|devcontainer|extractor|deno|biome|turbo|nx|wrangler|angular|project|rush|cspell|lerna|vercel|firebase|typedoc)(?:\.[\w-]+)*\.json$/i;

/** The position of an error in a JSON text, and its reason. */
export interface JsonFault {
  line: number;
  message: string;
}

/** Files by path, with their texts before and after a change. `was` is null for a new file. */
export interface JsonJob {
  files: readonly { name: string; was: string | null; is: string }[];
}

/**
 * New JSON errors, one entry per file. Null if there is no error, if the file had one before, or if the deviation may
 * be intended.
 */
export function jsonFaults({ files }: JsonJob): (JsonFault | null)[] {
  return files.map(({ name, was, is }) => {
    const isNew = was === null || was.trim() === "";
    const fault = jsonFault(is, name, isNew ? undefined : was);
    return fault && (isNew || !jsonFault(was, name, was)) ? fault : null;
  });
}

/**
 * Finds the error in a text that must be JSON; undefined if it is valid, or may be valid for its reader. `was`: the
 * text before a change. Takes linear time, as `JSON.parse`.
 */
export function jsonFault(text: string, name: string, was?: string): JsonFault | undefined {
  const last = name.slice(name.lastIndexOf("/") + 1);
  const plain = text.replace(/^\uFEFF/, "");
  // A template, or a language that is not JSON.
  if (JSON5_NAMES.test(last) || /\{\{|\{%|<%|\$\{/.test(plain)) return undefined;
  const bare = withoutComments(plain);
  if (STRICT.test(last)) return parseFault(plain);
  const fault = parseFault(bare.text);
  if (fault) return isJsonLines(plain) ? undefined : fault;
  // Only comments or trailing commas deviate from strict JSON. Comments are intended.
  if (bare.comments || SETTINGS.test(name)) return undefined;
  return was === undefined || !parseFault(was.replace(/^\uFEFF/, "")) ? parseFault(plain) : undefined;
}

function isJsonLines(text: string): boolean {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.length > 1 && !lines.some((line) => parseFault(line));
}

function parseFault(strict: string): JsonFault | undefined {
  // Many programs create an empty file before they write.
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

/** Replaces comments and trailing commas with blanks, so that positions stay the same. */
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
      const commentEnd = text.indexOf(isLine ? "\n" : "*/", i + 2);
      const end = commentEnd === -1 ? text.length : commentEnd + (isLine ? 0 : 2);
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
