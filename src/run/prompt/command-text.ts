/** The parsed file of a command. */
export interface CommandText {
  /** A single line. */
  readonly description: string;
  /** Arguments that follow the name. */
  readonly hint: string;
  readonly body: string;
}

/** Maximum displayed characters of a description or hint. */
const MAX_SHOWN_CHARACTERS = 200;

/**
 * Parses a command file: fields between two lines of `---`, then the prompt. Each field is one line, `name: value`. A
 * folded value (`>`, `|`) continues on the indented lines. Other YAML syntax is taken literally.
 */
export function commandText(file: string): CommandText {
  const lines = file.replace(/^\uFEFF/, "").split(/\r?\n/);
  const end = lines[0]?.trimEnd() === "---" ? lines.findIndex((line, at) => at > 0 && line.trimEnd() === "---") : -1;
  const body = lines
    .slice(end + 1)
    .join("\n")
    .trim();
  const fields = new Map<string, string>();
  let open = "";
  for (const line of lines.slice(1, Math.max(end, 1))) {
    const colon = line.indexOf(":");
    if (/^\s/.test(line)) {
      if (open !== "") fields.set(open, `${fields.get(open) ?? ""} ${line.trim()}`);
    } else if (colon > 0) {
      const name = line.slice(0, colon).trim().toLowerCase();
      const value = line.slice(colon + 1).trim();
      const isFolded = /^[>|][+-]?$/.test(value);
      open = isFolded ? name : "";
      fields.set(name, isFolded ? "" : unquoted(value));
    }
  }
  const first = body.split("\n", 1)[0] ?? "";
  return {
    description: oneLine(fields.get("description") ?? first.replace(/^#+ /, "")),
    hint: oneLine(fields.get("argument-hint") ?? ""),
    body,
  };
}

function unquoted(value: string): string {
  const [first = ""] = value;
  return value.length > 1 && `"'`.includes(first) && value.endsWith(first) ? value.slice(1, -1) : value;
}

/** Text as one line of a list: invisible characters are removed, long text is cut. */
export function oneLine(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  const characters = [...line.slice(0, 2 * MAX_SHOWN_CHARACTERS)];
  return characters.length > MAX_SHOWN_CHARACTERS
    ? `${characters.slice(0, MAX_SHOWN_CHARACTERS - 1).join("")}…`
    : characters.join("");
}

/**
 * Limit for the characters that are inserted into a template: the higher of a fixed number and a multiple of the
 * arguments' length.
 */
const MAX_INSERTED_CHARACTERS = 262_144;
const MAX_INSERTION_FACTOR = 4;

/**
 * Inserts the arguments into a command's text: `$ARGUMENTS` is all of them, `$1` to `$9` single words, which may be
 * quoted. A text without placeholders gets the arguments at its end. Undefined if the inserted text exceeds the limit.
 */
export function fillTemplate(body: string, words: string): string | undefined {
  const each = wordsOf(words);
  let isUsed = false;
  let remainingCharacters = Math.max(MAX_INSERTED_CHARACTERS, MAX_INSERTION_FACTOR * words.length);
  // In one pass, so that placeholders in the arguments are not expanded.
  const text = body.replace(/\$(?:(ARGUMENTS)(?!\w)|([1-9])(?!\d))/g, (_, all: string | undefined, nth: string) => {
    isUsed = true;
    const word = all === undefined ? (each[Number(nth) - 1] ?? "") : words;
    remainingCharacters -= word.length;
    return remainingCharacters < 0 ? "" : word;
  });
  if (remainingCharacters < 0) return undefined;
  return isUsed || words === "" ? text : `${text}\n\n${words}`;
}

function wordsOf(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
}
