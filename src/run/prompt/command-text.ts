/** What a command's file says: what it is, and what it stands for. */
export interface CommandText {
  /** One line. */
  readonly description: string;
  /** What to type behind its name. */
  readonly hint: string;
  readonly body: string;
}

/** Characters of what people are shown of a command. */
const SHOWN = 200;

/**
 * Fields between two lines of `---`, then the text. Fields are read line by line, `name: value`; a value that is folded
 * (`>`, `|`) goes on with the indented lines. Whatever else YAML has stands for itself.
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

/** Text as one line of a list: what is not seen is left out, what is long is cut. */
export function oneLine(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  const characters = [...line.slice(0, 2 * SHOWN)];
  return characters.length > SHOWN ? `${characters.slice(0, SHOWN - 1).join("")}…` : characters.join("");
}

/** What is put into a command's text may be so many characters, or so many times what was typed. */
const PUT_IN = 262_144;
const TIMES = 4;

/**
 * A command's text with what was typed behind its name: `$ARGUMENTS` all of it, `$1` to `$9` its words, of which one may
 * stand in quotes. A text without any of these has it at its end. Undefined where it would be put in far too often.
 */
export function filled(body: string, words: string): string | undefined {
  const each = wordsOf(words);
  let isUsed = false;
  let left = Math.max(PUT_IN, TIMES * words.length);
  // In one pass: what was typed is put in, and looked at no more.
  const text = body.replace(/\$(?:(ARGUMENTS)(?!\w)|([1-9])(?!\d))/g, (_, all: string | undefined, nth: string) => {
    isUsed = true;
    const word = all === undefined ? (each[Number(nth) - 1] ?? "") : words;
    left -= word.length;
    return left < 0 ? "" : word;
  });
  if (left < 0) return undefined;
  return isUsed || words === "" ? text : `${text}\n\n${words}`;
}

function wordsOf(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
}
