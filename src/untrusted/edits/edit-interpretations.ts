import { toLf } from "../../files/line-ends.js";

/** What a model may have meant by an edit. */
export interface EditInterpretation {
  readonly old: string;
  /** Undefined where it cannot be said what it is then, for the reason in `unclear`. */
  readonly fresh: string | undefined;
  readonly unclear?: string;
  /** Whether it began with a line, and ended with one, where blank lines were taken away. */
  readonly begins?: boolean;
  readonly ends?: boolean;
  /** What was taken for a slip, in words. */
  readonly how: readonly string[];
}

/** The ways to read an edit, the plainest first: as it stands, then without what models add to a text by mistake. */
export function editInterpretations(old: string, fresh: string): EditInterpretation[] {
  let readings: EditInterpretation[] = [{ old: toLf(old), fresh: toLf(fresh), how: [] }];
  for (const step of [withoutFences, withoutNumbers, unescaped, withoutBlankEnds])
    readings = readings.flatMap((one) => [one, ...step(one)]);
  return readings.sort((one, other) => one.how.length - other.how.length);
}

const FENCE = /^\s*(?:```|~~~)[\w+.-]*\s*$/;

function withoutFences({ old, fresh, how }: EditInterpretation): EditInterpretation[] {
  const fenced = (text: string): [boolean, boolean] => {
    const lines = text.split("\n");
    return [FENCE.test(lines[0] ?? ""), FENCE.test(lines[lastFull(lines)] ?? "")];
  };
  const [first, last] = fenced(old);
  if ((!first && !last) || fresh === undefined) return [];
  const stripped = (text: string): string => {
    const [opens, closes] = fenced(text);
    const lines = text.split("\n");
    const inner = lines.slice(first && opens ? 1 : 0, last && closes ? lastFull(lines) : undefined).join("\n");
    // The line before the closing fence has an end.
    return last && (closes || !inner.endsWith("\n")) && inner !== "" ? `${inner}\n` : inner;
  };
  return [{ old: stripped(old), fresh: stripped(fresh), how: [...how, "without the code fence"] }];
}

function lastFull(lines: readonly string[]): number {
  return lines.findLastIndex((line) => line.trim() !== "");
}

/** As `read` and other tools print lines: a number, and what parts it from the line. */
const NUMBERED = /^ *(\d{1,7})(?:\t|→|\| ?|: )/;

function withoutNumbers({ old, fresh, how }: EditInterpretation): EditInterpretation[] {
  const lines = old.split("\n");
  const numbers = lines.filter((line) => line.trim() !== "").map((line) => NUMBERED.exec(line));
  const [first] = numbers;
  if (!first || fresh === undefined) return [];
  const parting = first[0].replace(/^ *\d+/, "");
  // A single line with a number may be a list or a table: there it takes the sign that only a tool prints.
  if (numbers.length === 1 && !/^[\t→]/.test(parting)) return [];
  const counts = numbers.every(
    (one, at) => one?.[0].endsWith(parting) && (at === 0 || Number(one[1]) > Number(numbers[at - 1]?.[1])),
  );
  if (!counts) return [];
  const stripped = (text: string): string => text.replaceAll(new RegExp(NUMBERED, "gm"), "");
  const own = fresh.split("\n").filter((line) => line.trim() !== "");
  const numbered = own.filter((line) => NUMBERED.test(line)).length;
  const clear = numbered === 0 || numbered === own.length;
  const reading = { old: stripped(old), how: [...how, "without the line numbers"] };
  if (clear) return [{ ...reading, fresh: numbered === 0 ? fresh : stripped(fresh) }];
  return [{ ...reading, fresh: undefined, unclear: "some lines of new_string begin with a line number, some do not" }];
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "", '"': '"', "'": "'", "`": "`", "\\": "\\" };

/** What was escaped once too often, as it would be in JSON; then its line ends and tabs alone. */
function unescaped(reading: EditInterpretation): EditInterpretation[] {
  const kinds = new Set<string>();
  for (const [, sign = ""] of reading.old.matchAll(/\\(.)/g)) if (sign in ESCAPES) kinds.add(sign);
  const ends = new Set([...kinds].filter((sign) => "nrt".includes(sign)));
  return [kinds, ...(ends.size < kinds.size ? [ends] : [])].flatMap((some) => unescapedBy(reading, some));
}

function unescapedBy({ old, fresh, how }: EditInterpretation, kinds: ReadonlySet<string>): EditInterpretation[] {
  if (kinds.size === 0 || fresh === undefined) return [];
  const plain = (text: string): string =>
    text.replace(/\\(.)/g, (pair, sign: string) => (kinds.has(sign) ? (ESCAPES[sign] ?? pair) : pair));
  const reading = { old: plain(old), how: [...how, "with its escapes undone"] };
  // Who broke the lines of the fresh text has escaped the old one alone.
  if (kinds.has("n") && fresh.includes("\n") && !old.includes("\n")) return [{ ...reading, fresh }];
  const unclear = unclearEscapes(fresh, kinds);
  return [unclear === undefined ? { ...reading, fresh: plain(fresh) } : { ...reading, fresh: undefined, unclear }];
}

/** Why it cannot be said which escapes of a text were meant to be. */
function unclearEscapes(text: string, kinds: ReadonlySet<string>): string | undefined {
  const bare = text.replace(/\\./g, "");
  const quote = ['"', "'", "`"].find((sign) => kinds.has(sign) && bare.includes(sign) && text.includes(`\\${sign}`));
  if (quote !== undefined) return `new_string has both ${quote} and \\${quote}`;
  if (!kinds.has("n")) return undefined;
  const lines = text.replaceAll("\\\\", "").split(/\\n|\n/);
  const open = (line: string): boolean =>
    ['"', "'", "`"].some((sign) => (line.replace(/\w'\w/g, "").split(sign).length - 1) % 2 === 1);
  return lines.slice(0, -1).some(open)
    ? "new_string has \\n where it may end a line or be a part of a text in quotes"
    : undefined;
}

/** Blank lines at its ends that the file has not. */
function withoutBlankEnds({ old, fresh, how, ...rest }: EditInterpretation): EditInterpretation[] {
  const words = trimmed(old);
  if (words === old || words === "") return [];
  const first = old.indexOf(words);
  const edges = { begins: first > 0, ends: old.slice(first + words.length).includes("\n") };
  const reading = { ...rest, ...edges, old: words, how: [...how, "without the blank lines at its ends"] };
  if (fresh === undefined) return [{ ...reading, fresh }];
  const own = trimmed(fresh);
  const at = fresh.indexOf(own);
  // Blank lines that the fresh text has beyond those of the old one are asked for.
  const lead = more(fresh.slice(0, at), old.slice(0, first));
  const trail = more(fresh.slice(at + own.length), old.slice(first + words.length));
  return [{ ...reading, fresh: own === "" ? "" : lead + own + trail }];
}

function more(blank: string, known: string): string {
  const count = (text: string): number => text.split("\n").length - 1;
  return "\n".repeat(Math.max(0, count(blank) - count(known)));
}

/** Without blank lines before and behind; the indentation of the first line stays. */
function trimmed(text: string): string {
  return text.replace(/^(?:[ \t\r]*\n)+/, "").trimEnd();
}
