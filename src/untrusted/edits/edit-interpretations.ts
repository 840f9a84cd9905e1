import { toLf } from "../../files/line-ends.js";

/** A possible meaning of an edit by a model. */
export interface EditInterpretation {
  readonly old: string;
  /** The new text. Undefined if it cannot be determined; `unclear` gives the reason. */
  readonly fresh: string | undefined;
  readonly unclear?: string;
  /** Set if blank lines were removed: whether the old text started, and ended, at a line boundary. */
  readonly startsAtLine?: boolean;
  readonly endsAtLine?: boolean;
  /** The assumed mistakes, in words. */
  readonly how: readonly string[];
}

/** Possible meanings of an edit, simplest first: as written, then without text that models add by mistake. */
export function editInterpretations(old: string, fresh: string): EditInterpretation[] {
  let readings: EditInterpretation[] = [{ old: toLf(old), fresh: toLf(fresh), how: [] }];
  for (const step of [withoutFences, withoutNumbers, unescaped, withoutBlankEnds])
    readings = readings.flatMap((interpretation) => [interpretation, ...step(interpretation)]);
  return readings.sort((left, right) => left.how.length - right.how.length);
}

const FENCE = /^\s*(?:```|~~~)[\w+.-]*\s*$/;

function withoutFences({ old, fresh, how }: EditInterpretation): EditInterpretation[] {
  const fenced = (text: string): [boolean, boolean] => {
    const lines = text.split("\n");
    return [FENCE.test(lines[0] ?? ""), FENCE.test(lines[lastNonBlank(lines)] ?? "")];
  };
  const [first, last] = fenced(old);
  if ((!first && !last) || fresh === undefined) return [];
  const stripped = (text: string): string => {
    const [opens, closes] = fenced(text);
    const lines = text.split("\n");
    const inner = lines.slice(first && opens ? 1 : 0, last && closes ? lastNonBlank(lines) : undefined).join("\n");
    // The line before the closing fence ends with a line feed.
    return last && (closes || !inner.endsWith("\n")) && inner !== "" ? `${inner}\n` : inner;
  };
  return [{ old: stripped(old), fresh: stripped(fresh), how: [...how, "without the code fence"] }];
}

function lastNonBlank(lines: readonly string[]): number {
  return lines.findLastIndex((line) => line.trim() !== "");
}

/** A line as `read` and other tools print it: a number, a separator and the line. */
const NUMBERED = /^ *(\d{1,7})(?:\t|→|\| ?|: )/;

function withoutNumbers({ old, fresh, how }: EditInterpretation): EditInterpretation[] {
  const lines = old.split("\n");
  const numbers = lines.filter((line) => line.trim() !== "").map((line) => NUMBERED.exec(line));
  const [first] = numbers;
  if (!first || fresh === undefined) return [];
  const parting = first[0].replace(/^ *\d+/, "");
  // A single numbered line may be part of a list or table. Only a separator that tools print identifies a line number.
  if (numbers.length === 1 && !/^[\t→]/.test(parting)) return [];
  const counts = numbers.every(
    (match, at) => match?.[0].endsWith(parting) && (at === 0 || Number(match[1]) > Number(numbers[at - 1]?.[1])),
  );
  if (!counts) return [];
  const stripped = (text: string): string => text.replaceAll(new RegExp(NUMBERED, "gm"), "");
  const newLines = fresh.split("\n").filter((line) => line.trim() !== "");
  const numbered = newLines.filter((line) => NUMBERED.test(line)).length;
  const clear = numbered === 0 || numbered === newLines.length;
  const reading = { old: stripped(old), how: [...how, "without the line numbers"] };
  if (clear) return [{ ...reading, fresh: numbered === 0 ? fresh : stripped(fresh) }];
  return [{ ...reading, fresh: undefined, unclear: "some lines of new_string begin with a line number, some do not" }];
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "", '"': '"', "'": "'", "`": "`", "\\": "\\" };

/** Text that was escaped once too often, as in JSON: all escapes, then only line ends and tabs. */
function unescaped(reading: EditInterpretation): EditInterpretation[] {
  const kinds = new Set<string>();
  for (const [, sign = ""] of reading.old.matchAll(/\\(.)/g)) if (sign in ESCAPES) kinds.add(sign);
  const ends = new Set([...kinds].filter((sign) => "nrt".includes(sign)));
  return [kinds, ...(ends.size < kinds.size ? [ends] : [])].flatMap((escapes) => unescapedBy(reading, escapes));
}

function unescapedBy({ old, fresh, how }: EditInterpretation, kinds: ReadonlySet<string>): EditInterpretation[] {
  if (kinds.size === 0 || fresh === undefined) return [];
  const plain = (text: string): string =>
    text.replace(/\\(.)/g, (pair, sign: string) => (kinds.has(sign) ? (ESCAPES[sign] ?? pair) : pair));
  const reading = { old: plain(old), how: [...how, "with its escapes decoded"] };
  // If the new text has line breaks and the old one has none, only the old text was escaped.
  if (kinds.has("n") && fresh.includes("\n") && !old.includes("\n")) return [{ ...reading, fresh }];
  const unclear = unclearEscapes(fresh, kinds);
  return [unclear === undefined ? { ...reading, fresh: plain(fresh) } : { ...reading, fresh: undefined, unclear }];
}

/** Why it is unclear which escapes of a text are intended; undefined if it is clear. */
function unclearEscapes(text: string, kinds: ReadonlySet<string>): string | undefined {
  const bare = text.replace(/\\./g, "");
  const quote = ['"', "'", "`"].find((sign) => kinds.has(sign) && bare.includes(sign) && text.includes(`\\${sign}`));
  if (quote !== undefined) return `new_string has both ${quote} and \\${quote}`;
  if (!kinds.has("n")) return undefined;
  const lines = text.replaceAll("\\\\", "").split(/\\n|\n/);
  const open = (line: string): boolean =>
    ['"', "'", "`"].some((sign) => (line.replace(/\w'\w/g, "").split(sign).length - 1) % 2 === 1);
  return lines.slice(0, -1).some(open)
    ? "new_string has \\n that may be a line ending or part of a quoted text"
    : undefined;
}

/** Removes blank lines at the start and end of the old text that the file may not contain. */
function withoutBlankEnds({ old, fresh, how, ...otherFields }: EditInterpretation): EditInterpretation[] {
  const words = trimmed(old);
  if (words === old || words === "") return [];
  const first = old.indexOf(words);
  const edges = { startsAtLine: first > 0, endsAtLine: old.slice(first + words.length).includes("\n") };
  const reading = { ...otherFields, ...edges, old: words, how: [...how, "without leading and trailing blank lines"] };
  if (fresh === undefined) return [{ ...reading, fresh }];
  const newText = trimmed(fresh);
  const at = fresh.indexOf(newText);
  // Blank lines of the new text beyond those of the old text are intended.
  const lead = extraLineFeeds(fresh.slice(0, at), old.slice(0, first));
  const trail = extraLineFeeds(fresh.slice(at + newText.length), old.slice(first + words.length));
  return [{ ...reading, fresh: newText === "" ? "" : lead + newText + trail }];
}

function extraLineFeeds(blank: string, oldBlank: string): string {
  const count = (text: string): number => text.split("\n").length - 1;
  return "\n".repeat(Math.max(0, count(blank) - count(oldBlank)));
}

/** Without blank lines at the start and end. The indentation of the first line stays. */
function trimmed(text: string): string {
  return text.replace(/^(?:[ \t\r]*\n)+/, "").trimEnd();
}
