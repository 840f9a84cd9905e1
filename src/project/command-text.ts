export interface CommandText {
  /** The `description` field, or the first line of the body. A single line. */
  readonly description: string;
  /** Hint on the arguments that follow the name; `""` if the file has none. */
  readonly hint: string;
  readonly body: string;
}

/** Maximum displayed characters of a description or hint. */
const MAX_SHOWN_CHARACTERS = 200;

/**
 * Parses a command file: fields between two lines of `---`, then the prompt. Each field is one line, `name: value`. A
 * folded value (`>`, `|`) continues on the indented lines. Other YAML syntax is taken literally.
 */
export function parseCommandFile(file: string): CommandText {
  const lines = file.replace(/^\uFEFF/, "").split(/\r?\n/);
  const headerEnd =
    lines[0]?.trimEnd() === "---" ? lines.findIndex((line, i) => i > 0 && line.trimEnd() === "---") : -1;
  const body = lines
    .slice(headerEnd + 1)
    .join("\n")
    .trim();
  const fields = new Map<string, string>();
  let foldedField = "";
  for (const line of lines.slice(1, Math.max(headerEnd, 1))) {
    const colon = line.indexOf(":");
    if (/^\s/.test(line)) {
      if (foldedField !== "") fields.set(foldedField, `${fields.get(foldedField) ?? ""} ${line.trim()}`);
    } else if (colon > 0) {
      const name = line.slice(0, colon).trim().toLowerCase();
      const value = line.slice(colon + 1).trim();
      const isFolded = /^[>|][+-]?$/.test(value);
      foldedField = isFolded ? name : "";
      fields.set(name, isFolded ? "" : stripQuotes(value));
    }
  }
  const firstLine = body.split("\n", 1)[0] ?? "";
  return {
    description: toOneLine(fields.get("description") ?? firstLine.replace(/^#+ /, "")),
    hint: toOneLine(fields.get("argument-hint") ?? ""),
    body,
  };
}

function stripQuotes(value: string): string {
  const [quote = ""] = value;
  return value.length > 1 && `"'`.includes(quote) && value.endsWith(quote) ? value.slice(1, -1) : value;
}

/** Formats text as one line of a list: removes invisible characters and truncates long text. */
export function toOneLine(text: string): string {
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
 * quoted. If the text has no placeholders, the arguments are appended. Returns undefined if the inserted text exceeds
 * the limit.
 */
export function fillTemplate(body: string, argumentText: string): string | undefined {
  const argumentWords = splitWords(argumentText);
  let hasPlaceholder = false;
  let remainingCharacters = Math.max(MAX_INSERTED_CHARACTERS, MAX_INSERTION_FACTOR * argumentText.length);
  // In one pass, so that placeholders in the arguments are not expanded.
  const text = body.replace(
    /\$(?:(ARGUMENTS)(?!\w)|([1-9])(?!\d))/g,
    (_, allArguments: string | undefined, wordNumber: string) => {
      hasPlaceholder = true;
      const word = allArguments === undefined ? (argumentWords[Number(wordNumber) - 1] ?? "") : argumentText;
      remainingCharacters -= word.length;
      return remainingCharacters < 0 ? "" : word;
    },
  );
  if (remainingCharacters < 0) return undefined;
  return hasPlaceholder || argumentText === "" ? text : `${text}\n\n${argumentText}`;
}

function splitWords(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, doubleQuotedText, singleQuotedText, plainText]) => doubleQuotedText ?? singleQuotedText ?? plainText ?? "",
  );
}
