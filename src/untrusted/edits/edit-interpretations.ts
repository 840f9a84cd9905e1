import { toLf } from "../../files/line-ends.js";

/** A possible meaning of an edit by a model. */
export interface EditInterpretation {
  readonly oldText: string;
  /** The new text. Undefined if it cannot be determined; `unclearReason` gives the reason. */
  readonly replacement: string | undefined;
  readonly unclearReason?: string;
  /**
   * Whether the match must start at the start of a line, because blank lines before it were removed. Default: false.
   */
  readonly startsAtLine?: boolean;
  /** Whether the match must end at the end of a line, because blank lines after it were removed. Default: false. */
  readonly endsAtLine?: boolean;
  /** Descriptions of the assumed mistakes, for the model. */
  readonly differences: readonly string[];
}

/** Possible meanings of an edit, simplest first: as written, then without text that models add by mistake. */
export function interpretEdit(oldText: string, replacement: string): EditInterpretation[] {
  let interpretations: EditInterpretation[] = [
    { oldText: toLf(oldText), replacement: toLf(replacement), differences: [] },
  ];
  for (const step of [removeFences, removeLineNumbers, decodeEscapes, removeBlankEnds])
    interpretations = interpretations.flatMap((interpretation) => [interpretation, ...step(interpretation)]);
  return interpretations.sort((left, right) => left.differences.length - right.differences.length);
}

const FENCE = /^\s*(?:```|~~~)[\w+.-]*\s*$/;

function removeFences({ oldText, replacement, differences }: EditInterpretation): EditInterpretation[] {
  const detectFences = (text: string): [boolean, boolean] => {
    const lines = text.split("\n");
    return [FENCE.test(lines[findFirstNonBlank(lines)] ?? ""), FENCE.test(lines[findLastNonBlank(lines)] ?? "")];
  };
  const [hasOpeningFence, hasClosingFence] = detectFences(oldText);
  if ((!hasOpeningFence && !hasClosingFence) || replacement === undefined) return [];
  const stripFences = (text: string): string => {
    const [isOpened, isClosed] = detectFences(text);
    const lines = text.split("\n");
    const innerText = lines
      .slice(
        hasOpeningFence && isOpened ? findFirstNonBlank(lines) + 1 : 0,
        hasClosingFence && isClosed ? findLastNonBlank(lines) : undefined,
      )
      .join("\n");
    // The line before the closing fence ends with a line feed.
    return hasClosingFence && (isClosed || !innerText.endsWith("\n")) && innerText !== ""
      ? `${innerText}\n`
      : innerText;
  };
  return [
    {
      oldText: stripFences(oldText),
      replacement: stripFences(replacement),
      differences: [...differences, "without the code fence"],
    },
  ];
}

function findFirstNonBlank(lines: readonly string[]): number {
  return lines.findIndex((line) => line.trim() !== "");
}

function findLastNonBlank(lines: readonly string[]): number {
  return lines.findLastIndex((line) => line.trim() !== "");
}

/** A line as `read` and other tools print it: a number, a separator and the line. */
const LINE_NUMBER = /^ *(\d{1,7})(?:\t|→|\| ?|: )/;

function removeLineNumbers({ oldText, replacement, differences }: EditInterpretation): EditInterpretation[] {
  const lines = oldText.split("\n");
  const numberMatches = lines.filter((line) => line.trim() !== "").map((line) => LINE_NUMBER.exec(line));
  const [firstNumber] = numberMatches;
  if (!firstNumber || replacement === undefined) return [];
  const separator = firstNumber[0].replace(/^ *\d+/, "");
  // A single numbered line may be part of a list or table. Only a separator that tools print identifies a line number.
  if (numberMatches.length === 1 && !/^[\t→]/.test(separator)) return [];
  const isAscending = numberMatches.every(
    (match, i) => match?.[0].endsWith(separator) && (i === 0 || Number(match[1]) > Number(numberMatches[i - 1]?.[1])),
  );
  if (!isAscending) return [];
  const stripNumbers = (text: string): string => text.replaceAll(new RegExp(LINE_NUMBER, "gm"), "");
  const newLines = replacement.split("\n").filter((line) => line.trim() !== "");
  const numberedCount = newLines.filter((line) => LINE_NUMBER.test(line)).length;
  const isClear = numberedCount === 0 || numberedCount === newLines.length;
  const result = { oldText: stripNumbers(oldText), differences: [...differences, "without the line numbers"] };
  if (isClear) return [{ ...result, replacement: numberedCount === 0 ? replacement : stripNumbers(replacement) }];
  return [
    {
      ...result,
      replacement: undefined,
      unclearReason: "some lines of new_string begin with a line number, some do not",
    },
  ];
}

/** Characters by escape letter. `\r` becomes empty, because texts are compared with LF line ends. */
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "", '"': '"', "'": "'", "`": "`", "\\": "\\" };

const QUOTES: readonly string[] = ['"', "'", "`"];

/** Decodes a text that was escaped once too often, as in JSON: first all its escapes, then only line ends and tabs. */
function decodeEscapes(interpretation: EditInterpretation): EditInterpretation[] {
  const escapedSigns = new Set<string>();
  for (const [, sign = ""] of interpretation.oldText.matchAll(/\\(.)/g)) if (sign in ESCAPES) escapedSigns.add(sign);
  const whitespaceSigns = new Set([...escapedSigns].filter((sign) => "nrt".includes(sign)));
  return [escapedSigns, ...(whitespaceSigns.size < escapedSigns.size ? [whitespaceSigns] : [])].flatMap((escapes) =>
    unescapeSigns(interpretation, escapes),
  );
}

function unescapeSigns(
  { oldText, replacement, differences }: EditInterpretation,
  signs: ReadonlySet<string>,
): EditInterpretation[] {
  if (signs.size === 0 || replacement === undefined) return [];
  const unescape = (text: string): string =>
    text.replace(/\\(.)/g, (pair, sign: string) => (signs.has(sign) ? (ESCAPES[sign] ?? pair) : pair));
  const result = { oldText: unescape(oldText), differences: [...differences, "with its escapes decoded"] };
  // If the new text has line breaks and the old one has none, only the old text was escaped.
  if (signs.has("n") && replacement.includes("\n") && !oldText.includes("\n")) return [{ ...result, replacement }];
  const unclearReason = explainUnclearEscapes(replacement, signs, oldText);
  return [
    unclearReason === undefined
      ? { ...result, replacement: unescape(replacement) }
      : { ...result, replacement: undefined, unclearReason },
  ];
}

/** Returns why it is unclear which escapes of a text are intended. Undefined if the intention is clear. */
function explainUnclearEscapes(text: string, signs: ReadonlySet<string>, oldText: string): string | undefined {
  const textWithoutEscapes = text.replace(/\\./g, "");
  const quote = QUOTES.find(
    (sign) => signs.has(sign) && textWithoutEscapes.includes(sign) && text.includes(`\\${sign}`),
  );
  if (quote !== undefined) return `new_string has both ${quote} and \\${quote}`;
  if (!signs.has("n")) return undefined;
  // An old text without quotes does not show whether quotes were escaped too.
  const newQuote = QUOTES.find((sign) => !oldText.includes(sign) && text.includes(`\\${sign}`));
  if (newQuote !== undefined) return `new_string has \\${newQuote}, and old_string has no ${newQuote}`;
  const lines = text.replaceAll("\\\\", "").split(/\\n|\n/);
  // An apostrophe within a word does not open a quoted text.
  const hasOpenQuote = (line: string): boolean =>
    QUOTES.some((sign) => (line.replace(/\w'\w/g, "").split(sign).length - 1) % 2 === 1);
  return lines.slice(0, -1).some(hasOpenQuote)
    ? "new_string has \\n that may be a line ending or part of a quoted text"
    : undefined;
}

/** Removes blank lines at the start and the end of the old text, because the file may not contain them. */
function removeBlankEnds({
  oldText,
  replacement,
  differences,
  ...extraFields
}: EditInterpretation): EditInterpretation[] {
  const trimmedText = trimBlankLines(oldText);
  if (trimmedText === oldText || trimmedText === "") return [];
  const trimmedStart = oldText.indexOf(trimmedText);
  const boundaries = {
    startsAtLine: trimmedStart > 0,
    endsAtLine: oldText.slice(trimmedStart + trimmedText.length).includes("\n"),
  };
  const result = {
    ...extraFields,
    ...boundaries,
    oldText: trimmedText,
    differences: [...differences, "without leading and trailing blank lines"],
  };
  if (replacement === undefined) return [{ ...result, replacement }];
  const newText = trimBlankLines(replacement);
  const newTextStart = replacement.indexOf(newText);
  // Blank lines of the new text beyond those of the old text are intended.
  const leadingBreaks = repeatExtraLineFeeds(replacement.slice(0, newTextStart), oldText.slice(0, trimmedStart));
  const trailingBreaks = repeatExtraLineFeeds(
    replacement.slice(newTextStart + newText.length),
    oldText.slice(trimmedStart + trimmedText.length),
  );
  return [{ ...result, replacement: newText === "" ? "" : leadingBreaks + newText + trailingBreaks }];
}

function repeatExtraLineFeeds(blank: string, oldBlank: string): string {
  const countLineFeeds = (text: string): number => text.split("\n").length - 1;
  return "\n".repeat(Math.max(0, countLineFeeds(blank) - countLineFeeds(oldBlank)));
}

/** Removes blank lines at the start, and white space at the end. The indentation of the first line stays. */
function trimBlankLines(text: string): string {
  return text.replace(/^(?:[ \t\r]*\n)+/, "").trimEnd();
}
