/** The YAML front matter of a Markdown file, as plain text fields, and the text after it. */
export interface FrontMatter {
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Maximum fields, and maximum lines of front matter that are read. */
const MAX_FIELDS = 32;
const MAX_LINES = 200;

/**
 * Parses the front matter of a Markdown file. Reads plain texts only: one line, quoted or not, or an indented block
 * (`|`, `>`).
 *
 * All other YAML is ignored, so that every value is a string. Takes linear time.
 */
export function frontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const fields = new Map<string, string>();
  if (lines[0]?.trimEnd() !== "---") return { fields, body: text };
  const end = lines.findIndex((line, i) => i > 0 && /^(---|\.\.\.)[ \t]*$/.test(line));
  if (end === -1) return { fields, body: text };
  const head = lines.slice(1, Math.min(end, MAX_LINES));
  for (let i = 0; i < head.length && fields.size < MAX_FIELDS; i++) {
    const [, name, first = ""] = /^([A-Za-z][\w-]{0,63}):(?:[ \t](.*))?$/.exec(head[i] ?? "") ?? [];
    if (name === undefined) continue;
    const below: string[] = [];
    while (i + 1 < head.length && /^([ \t]|$)/.test(head[i + 1] ?? "")) below.push(head[++i] ?? "");
    const value = valueOf(first.trim(), below);
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

/** Undefined for values that are not text: lists, maps and references. */
function valueOf(first: string, below: readonly string[]): string | undefined {
  if (/^[|>][+-]?\d?$/.test(first))
    return below
      .map((line) => line.trim())
      .join(first.startsWith("|") ? "\n" : " ")
      .trim();
  const joined = [first, ...below.map((line) => line.trim())].join(" ").trim();
  if (/^[[{&*!]/.test(joined) || /^- /.test(joined)) return undefined;
  if (joined.startsWith("'")) return /^'((?:[^']|'')*)'/.exec(joined)?.[1]?.replaceAll("''", "'");
  if (joined.startsWith('"')) {
    const quoted = /^"(?:[^"\\]|\\.)*"/.exec(joined)?.[0];
    try {
      return quoted === undefined ? undefined : String(JSON.parse(quoted));
    } catch {
      return quoted?.slice(1, -1);
    }
  }
  const comment = joined.search(/(^|[ \t])#/);
  return (comment === -1 ? joined : joined.slice(0, comment)).trim();
}
