import meow from "meow";
import { VERSION } from "../base/version.js";
import { toFlag, type FlagSpec, type FlagSpecs } from "./command-description.js";

/** A command line as parsed by meow. */
export interface CommandLine {
  /** Words that are neither flags nor values of flags. */
  readonly input: readonly string[];
  /** Flags by key: a list of values for a flag with a value, otherwise `true`. */
  readonly flags: Readonly<Record<string, unknown>>;
}

/** Parsed flags of a command, in the form of `FlagsOf`. */
export type Flags = Readonly<Record<string, string | number | true | readonly string[]>>;

/** An invalid flag. `unknownFlag` is set if the command does not have the flag. */
export interface FlagFault {
  readonly fault: string;
  readonly unknownFlag?: string;
}

/** Flags of every command that print a text. */
const TEXT_FLAGS = { help: { type: "boolean", shortFlag: "h" }, version: { type: "boolean", shortFlag: "v" } } as const;

/** Parses the command line. `specs` are the flags of all commands that the line can contain. */
export function parseCommandLine(argv: readonly string[], specs: FlagSpecs): CommandLine {
  // Flags with values are parsed as lists, and numbers as text. Meow throws for a repeated flag before the command is
  // known, and parses `--limit=` as 0.
  const flags = Object.entries(specs).map(([key, { type }]) => [
    key,
    type === "boolean" ? { type } : { type: "string", isMultiple: true },
  ]);
  const cli = meow({
    importMeta: import.meta,
    argv,
    pkg: { name: "gantry", version: VERSION },
    description: false,
    autoHelp: false,
    autoVersion: false,
    // Meow would set absent flags to false.
    booleanDefault: undefined,
    flags: { ...TEXT_FLAGS, ...(Object.fromEntries(flags) as Record<string, { type: "string"; isMultiple: true }>) },
  });
  return { input: cli.input, flags: cli.flags };
}

/** Returns the flags of a command, or the first error in them. `argv` is the command line as typed. */
export function parseFlags(
  { flags }: CommandLine,
  specs: FlagSpecs,
  argv: readonly string[],
): { readonly flags: Flags } | FlagFault {
  const result: Record<string, Flags[string]> = {};
  // Words after `--` are not flags.
  const flagWords = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
  for (const [key, values] of Object.entries(flags)) {
    const name = toFlag(key);
    const spec = Object.hasOwn(specs, key) ? specs[key] : undefined;
    const occurrences = flagWords.filter((word) => word === name || word.startsWith(`${name}=`)).length;
    if (Array.isArray(values) && values.length === 0 && occurrences === 0) continue;
    if (values === false && (spec?.type === "boolean" || Object.hasOwn(TEXT_FLAGS, key)))
      return { fault: `${name} takes no value` };
    if (!spec || (spec.type === "boolean" ? values !== true : !isTextList(values)))
      return createUnknownFlagFault(key, flagWords);
    // Meow drops a flag that has no value.
    if (isTextList(values) && values.length < occurrences) return { fault: `${name} needs a value` };
    const value = isTextList(values) ? parseFlagValue(name, spec, values) : true;
    if (typeof value === "object" && "fault" in value) return value;
    result[key] = value;
  }
  return { flags: result };
}

function isTextList(values: unknown): values is readonly [string, ...string[]] {
  return Array.isArray(values) && values.every((value) => typeof value === "string");
}

function parseFlagValue(
  name: string,
  { type, choices, isMultiple }: FlagSpec,
  values: readonly [string, ...string[]],
): Flags[string] | FlagFault {
  if (isMultiple) return values;
  const [text] = values;
  if (values.length > 1) return { fault: `${name} was given twice` };
  const valueText = `got ${JSON.stringify(text)}`;
  if (choices && !choices.includes(text))
    return { fault: `${name}: expected one of ${choices.join(", ")}, ${valueText}` };
  if (type !== "number") return text;
  if (/^(\d+|\d*\.\d+)$/.test(text)) return Number(text);
  return { fault: `${name}: expected a number${/^-[\d.]/.test(text) ? " that is not below 0" : ""}, ${valueText}` };
}

/** Finds the word of an unknown flag as typed, because meow reports only the key. */
function createUnknownFlagFault(key: string, words: readonly string[]): FlagFault {
  const normalizeFlag = (text: string) =>
    text
      .replace(/=[^]*/, "")
      .replace(/[^a-z0-9]/gi, "")
      .toLowerCase();
  const flags = words.filter((word) => word.startsWith("-"));
  const typedFlag =
    flags.find((word) => normalizeFlag(word) === normalizeFlag(key)) ??
    flags.find((word) => /^-[^-\d]/.test(word)) ??
    flags.find((word) => normalizeFlag(word).includes(normalizeFlag(key))) ??
    toFlag(key);
  const [name = ""] = typedFlag.split("=");
  return { fault: `unknown flag ${name}`, unknownFlag: name };
}
