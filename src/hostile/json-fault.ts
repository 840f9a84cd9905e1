import { JsonError, parseJson } from "../base/json.js";

/** Files that may hold comments and commas behind the last element, by their last names. */
const WITH_COMMENTS =
  /(\.(jsonc|json5|code-workspace|code-snippets)|^(ts|js)config(\..+)?\.json|^\.(eslintrc|babelrc|swcrc)(\.json)?|^devcontainer\.json|^(settings|launch|tasks|extensions|keybindings)\.json|^\.jshintrc|^api-extractor\.json|^deno\.jsonc?)$/i;

/** Where a text stops to be JSON, and why. */
export interface JsonFault {
  line: number;
  message: string;
}

/** Files by their last names, as they were and are. */
export interface JsonJob {
  files: readonly { name: string; was: string | null; is: string }[];
}

/** Of each file the fault that is new; null: there is none, or there was one before, which it may be. */
export function jsonFaults({ files }: JsonJob): (JsonFault | null)[] {
  return files.map(({ name, was, is }) => {
    const fault = jsonFault(is, name);
    return fault && (was === null || !jsonFault(was, name)) ? fault : null;
  });
}

/** Where a text is no JSON, and why; undefined where it is. In linear time, as `JSON.parse` is. */
export function jsonFault(text: string, name: string): JsonFault | undefined {
  // JSON5 is another language.
  if (/\.json5$/i.test(name)) return undefined;
  const plain = text.replace(/^\uFEFF/, "");
  const strict = WITH_COMMENTS.test(name) ? withoutComments(plain) : plain;
  // An empty file is what many a program makes before it writes.
  if (strict.trim() === "") return undefined;
  try {
    parseJson(strict, 10_000);
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
function withoutComments(text: string): string {
  const out = text.split("");
  let comma = -1;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '"') {
      comma = -1;
      for (i++; i < text.length && text[i] !== '"' && text[i] !== "\n"; i++) if (text[i] === "\\") i++;
    } else if (char === "/" && (text[i + 1] === "/" || text[i + 1] === "*")) {
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
  return out.join("");
}
