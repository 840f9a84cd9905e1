import { parse, printParseErrorCode, type ParseError } from "jsonc-parser";
import { looksSecret } from "../base/secret-detection.js";
import { ConfigError } from "../ports/errors.js";

/** Maximum length of a shown line. Longer ones are cut on both sides of the error. */
const MAX_LINE_CHARACTERS = 100;
/** Maximum length of a shown word outside strings, which can be a key without its quotes. */
const MAX_WORD_CHARACTERS = 5;

/** Text after "expected", by the parser's name of an error. */
const EXPECTED_TEXTS: Readonly<Record<string, string>> = {
  InvalidSymbol: "a value, or a key in double quotes",
  InvalidNumberFormat: "a number",
  PropertyNameExpected: "a key in double quotes",
  ValueExpected: "a value",
  ColonExpected: '":" after the key',
  CommaExpected: '"," before this place',
  CloseBraceExpected: '"}"',
  CloseBracketExpected: '"]"',
  EndOfFileExpected: "the end of the file",
  UnexpectedEndOfComment: '"*/" at the end of the comment',
  UnexpectedEndOfString: '" at the end of the string',
  UnexpectedEndOfNumber: "a digit",
  InvalidUnicode: "four hexadecimal digits after \\u",
  InvalidEscapeCharacter: 'an escape such as \\n or \\"',
  InvalidCharacter: "no control character in the string",
};

/**
 * Parses JSON with comments and trailing commas. Throws `ConfigError` with the line, the column, the expected syntax and
 * the line's text.
 */
export function parseJsonc(content: string, file: string): unknown {
  const errors: ParseError[] = [];
  const value: unknown = parse(content, errors, { allowTrailingComma: true, disallowComments: false });
  const [firstError] = errors;
  if (firstError === undefined) return value;
  const precedingLines = content.slice(0, firstError.offset).split("\n");
  const column = precedingLines.at(-1)?.length ?? 0;
  const line = content.split("\n")[precedingLines.length - 1] ?? "";
  const errorName = printParseErrorCode(firstError.error);
  throw new ConfigError(
    `${file}:${precedingLines.length}:${column + 1}: expected ${EXPECTED_TEXTS[errorName] ?? errorName}, ` +
      `in JSON (comments and trailing commas allowed): ${formatLine(line, column)}`,
  );
}

/** Returns the line without long values and strings, because a value can be a secret. */
function formatLine(line: string, column: number): string {
  const start = Math.max(0, column - MAX_LINE_CHARACTERS / 2);
  const maskedLine = maskValues(line);
  // With masked values the columns differ, so only a line without them is cut at the error.
  const shownLine = maskedLine === line ? line.slice(start, start + MAX_LINE_CHARACTERS) : maskedLine;
  return shownLine.slice(0, MAX_LINE_CHARACTERS).trim() || "the line is empty";
}

function maskValues(line: string): string {
  return line.replace(
    /(?<=(?:^|[{,])\s*)("(?:[^"\\]|\\.)*"|\w+)(?=\s*:)|"(?:[^"\\]|\\.)*"?|\/\/.*|\/\*.*|[^\s"{}[\],:]+/g,
    (text: string, key: string | undefined) => {
      if (key !== undefined) return looksSecret(key.replace(/"/g, "")) ? '"…"' : key;
      if (text.startsWith('"')) return '"…"';
      if (/^\/[/*]/.test(text)) return `${text.slice(0, 2)} …`;
      return text.length > MAX_WORD_CHARACTERS ? "…" : text;
    },
  );
}
