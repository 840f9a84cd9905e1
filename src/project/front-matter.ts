/** The YAML front matter of a Markdown file, as plain text fields, and the text after it. */
export interface FrontMatter {
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Maximum fields that are read. */
const MAX_FIELDS = 32;
/** Maximum lines of front matter that are read. */
const MAX_LINES = 200;

/**
 * Parses the front matter of a Markdown file. Reads plain texts only: one line, quoted or not, or an indented block
 * (`|`, `>`).
 *
 * All other YAML is ignored, so that every value is a string. Takes linear time.
 */
export function parseFrontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const fields = new Map<string, string>();
  if (lines[0]?.trimEnd() !== "---") return { fields, body: text };
  const end = lines.findIndex((line, i) => i > 0 && /^(---|\.\.\.)[ \t]*$/.test(line));
  if (end === -1) return { fields, body: text };
  const headerLines = lines.slice(1, Math.min(end, MAX_LINES));
  for (let i = 0; i < headerLines.length && fields.size < MAX_FIELDS; i++) {
    const [, name, inlineValue = ""] = /^([A-Za-z][\w-]{0,63}):(?:[ \t](.*))?$/.exec(headerLines[i] ?? "") ?? [];
    if (name === undefined) continue;
    const continuationLines: string[] = [];
    while (i + 1 < headerLines.length && /^([ \t]|$)/.test(headerLines[i + 1] ?? ""))
      continuationLines.push(headerLines[++i] ?? "");
    const value = parseValue(inlineValue.trim(), continuationLines);
    if (value !== undefined && !fields.has(name)) fields.set(name, value);
  }
  return {
    fields,
    body: lines
      .slice(end + 1)
      .join("\n")
      .trim(),
  };
}

/** Parses a value. Undefined for values that are not text: lists, maps and references. */
function parseValue(inlineValue: string, continuationLines: readonly string[]): string | undefined {
  if (/^[|>][+-]?\d?$/.test(inlineValue))
    return continuationLines
      .map((line) => line.trim())
      .join(inlineValue.startsWith("|") ? "\n" : " ")
      .trim();
  const joinedText = [inlineValue, ...continuationLines.map((line) => line.trim())].join(" ").trim();
  if (/^[[{&*!]/.test(joinedText) || /^- /.test(joinedText)) return undefined;
  if (joinedText.startsWith("'")) return /^'((?:[^']|'')*)'/.exec(joinedText)?.[1]?.replaceAll("''", "'");
  if (joinedText.startsWith('"')) {
    const quotedText = /^"(?:[^"\\]|\\.)*"/.exec(joinedText)?.[0];
    try {
      return quotedText === undefined ? undefined : String(JSON.parse(quotedText));
    } catch {
      return quotedText?.slice(1, -1);
    }
  }
  const commentIndex = joinedText.search(/(^|[ \t])#/);
  return (commentIndex === -1 ? joinedText : joinedText.slice(0, commentIndex)).trim();
}
