import { flagName, type FlagSpec, type FlagSpecs } from "./about.js";

/** The words of a command line that are no flags, and the flags. */
export interface CommandLine {
  readonly input: readonly string[];
  readonly flags: Readonly<Record<string, FlagValue>>;
}

/** As `FlagsOf` says of each. */
export type FlagValue = string | number | true | readonly string[];

/** What was typed does not fit: `unknown` names a flag that the command does not have. */
export interface Fault {
  readonly fault: string;
  readonly unknown?: string;
}

/** Behind it everything is a word. */
const END = "--";

/** Whether a word is a flag; `-` alone is none. */
function isFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-";
}

/** The command line, read by the flags that its command has. Flags that are unknown, given twice or without a value are a fault. */
export function readLine(argv: readonly string[], specs: FlagSpecs): CommandLine | Fault {
  const known = new Map(Object.entries(specs).map(([key, spec]) => [flagName(key), { key, spec }]));
  const input: string[] = [];
  const flags: Record<string, FlagValue> = {};
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (word === END) {
      input.push(...argv.slice(at + 1));
      break;
    }
    if (!isFlag(word)) {
      input.push(word);
      continue;
    }
    const [name = "", ...rest] = word.split("=");
    const flag = known.get(name);
    if (!flag) return { fault: `unknown flag ${name}`, unknown: name };
    const { key, spec } = flag;
    const before = flags[key];
    if (before !== undefined && !spec.isMultiple) return { fault: `${name} was given twice` };
    if (spec.type === "boolean") {
      if (rest.length > 0) return { fault: `${name} takes no value` };
      flags[key] = true;
      continue;
    }
    let text = rest.join("=");
    if (rest.length === 0) {
      const next = argv[at + 1];
      if (next === undefined || (next.startsWith("-") && !isNegative(next, spec)))
        return { fault: `${name} needs a value` };
      text = next;
      at += 1;
    }
    const value = valueOf(text, spec);
    if (value === undefined) return { fault: `${name}: expected ${expected(spec, text)}, got ${JSON.stringify(text)}` };
    flags[key] = spec.isMultiple ? [...(Array.isArray(before) ? (before as string[]) : []), text] : value;
  }
  return { input, flags };
}

function valueOf(text: string, { type, choices }: FlagSpec): string | number | undefined {
  if (choices) return choices.includes(text) ? text : undefined;
  if (type !== "number") return text;
  return /^(\d+|\d*\.\d+)$/.test(text) ? Number(text) : undefined;
}

/** Where a number belongs it is one, and no flag. */
function isNegative(text: string, { type }: FlagSpec): boolean {
  return type === "number" && /^-[\d.]/.test(text);
}

function expected(spec: FlagSpec, text: string): string {
  if (spec.choices) return `one of ${spec.choices.join(", ")}`;
  return isNegative(text, spec) ? "a number that is not below 0" : "a number";
}

/** Where the words are that are no flags and no values, as far as that can be told by these flags. */
export function placesOf(argv: readonly string[], specs: readonly FlagSpecs[]): number[] {
  const taking = new Set(
    specs
      .flatMap((one) => Object.entries(one).filter(([, { type }]) => type !== "boolean"))
      .map(([key]) => flagName(key)),
  );
  const places: number[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (word === END) return [...places, ...[...argv.keys()].slice(at + 1)];
    if (!isFlag(word)) places.push(at);
    else if (taking.has(word) && !(argv[at + 1] ?? "-").startsWith("-")) at += 1;
  }
  return places;
}

/** The words before `--`, which alone may be flags. */
export function beforeEnd(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf(END);
  return end < 0 ? argv : argv.slice(0, end);
}
