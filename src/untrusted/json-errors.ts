import { JsonError, parseJson } from "../base/json.js";

/** Names of files that are read as strict JSON, without comments or trailing commas. */
const STRICT_JSON_NAMES = /^(?:package|package-lock|npm-shrinkwrap|composer)\.json$/i;
/** Names of files that are or may be JSON5, a different language. */
const JSON5_NAMES =
  /\.json5$|^(?:babel\.config|renovate|\.renovaterc)(?:\.json)?$|^\.(?:babelrc|jscsrc|renovaterc)(?:\.json)?$/i;
/**
 * Tool settings, which may contain comments and trailing commas. Recognized by name, and by folders that begin with a
 * dot.
 */
const SETTINGS_NAMES =
  /\.(?:jsonc|code-workspace|code-snippets|sublime-\w+)$|(?:^|\/)\.[^/]+(?:\/|$)|(?:config|settings|rc|options|rules|launch|tasks|extensions|keybindings|keymap|devcontainer|extractor|deno|biome|turbo|nx|wrangler|angular|project|rush|cspell|lerna|vercel|firebase|typedoc)(?:\.[\w-]+)*\.json$/i;

/** Maximum depth of arrays and objects. */
const MAX_DEPTH = 10_000;

/** The position of an error in a JSON text, and its reason. */
export interface JsonFault {
  /** Line number, from 1. */
  line: number;
  message: string;
}

/** Files by path, with their texts before and after a change. `oldText`: null for a new file. */
export interface JsonJob {
  files: readonly { name: string; oldText: string | null; newText: string }[];
}

/**
 * Returns an entry for each file: its new JSON error, or null. The entry is null if there is no error, if the file had
 * an error before the change, or if the deviation may be intended.
 */
export function findJsonFaults({ files }: JsonJob): (JsonFault | null)[] {
  return files.map(({ name, oldText, newText }) => {
    const isNew = oldText === null || oldText.trim() === "";
    const fault = findJsonFault(newText, name, isNew ? undefined : oldText);
    return fault && (isNew || !findJsonFault(oldText, name, oldText)) ? fault : null;
  });
}

/**
 * Finds the error in a text that must be JSON. Returns undefined if the text is valid, or may be valid for its reader.
 * `oldText`: the text before a change; undefined for a new file. Takes linear time, like `JSON.parse`.
 */
export function findJsonFault(text: string, name: string, oldText?: string): JsonFault | undefined {
  const fileName = name.slice(name.lastIndexOf("/") + 1);
  const textWithoutMark = text.replace(/^\uFEFF/, "");
  // A template, or a language that is not JSON.
  if (JSON5_NAMES.test(fileName) || /\{\{|\{%|<%|\$\{/.test(textWithoutMark)) return undefined;
  const strictForm = blankExtensions(textWithoutMark);
  if (STRICT_JSON_NAMES.test(fileName)) return findParseFault(textWithoutMark);
  const fault = findParseFault(strictForm.text);
  if (fault) return isJsonLines(textWithoutMark) ? undefined : fault;
  // Only comments or trailing commas deviate from strict JSON. Comments are intended.
  if (strictForm.hasComments || SETTINGS_NAMES.test(name)) return undefined;
  return oldText === undefined || !findParseFault(oldText.replace(/^\uFEFF/, ""))
    ? findParseFault(textWithoutMark)
    : undefined;
}

function isJsonLines(text: string): boolean {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.length > 1 && !lines.some((line) => findParseFault(line));
}

function findParseFault(json: string): JsonFault | undefined {
  // Many programs create an empty file before they write.
  if (json.trim() === "") return undefined;
  try {
    parseJson(json, MAX_DEPTH, Infinity);
    return undefined;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const [, position] = /position (\d+)/.exec(error.message) ?? [];
    const end = position === undefined ? json.trimEnd().length : Number(position);
    const message = error.message.replace(/ in JSON at position.*$|, "?(\.\.\.)?[^]*is not valid JSON$/, "");
    return { line: json.slice(0, end).split("\n").length, message };
  }
}

/** Replaces comments and trailing commas with blanks, so that all positions stay the same. */
function blankExtensions(text: string): { text: string; hasComments: boolean } {
  let hasComments = false;
  const characters = text.split("");
  /** Index of a comma after which no value has started; -1 if there is none. */
  let commaIndex = -1;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      commaIndex = -1;
      for (i++; i < text.length && text[i] !== '"' && text[i] !== "\n"; i++) if (text[i] === "\\") i++;
    } else if (char === "/" && (text[i + 1] === "/" || text[i + 1] === "*")) {
      hasComments = true;
      const isLine = text[i + 1] === "/";
      const commentEnd = text.indexOf(isLine ? "\n" : "*/", i + 2);
      const end = commentEnd === -1 ? text.length : commentEnd + (isLine ? 0 : 2);
      for (let k = i; k < end; k++) if (characters[k] !== "\n") characters[k] = " ";
      i = end - 1;
    } else if (char === ",") commaIndex = i;
    else if (char === "}" || char === "]") {
      if (commaIndex !== -1) characters[commaIndex] = " ";
      commaIndex = -1;
    } else if (char !== undefined && !/\s/.test(char)) commaIndex = -1;
  }
  return { text: characters.join(""), hasComments };
}
