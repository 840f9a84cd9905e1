import meow from "meow";
import { VERSION } from "../base/version.js";
import { flagName, type FlagSpec, type FlagSpecs } from "./about.js";

/** A command line as meow reads it. */
export interface CommandLine {
  /** The words that are no flags and no values of flags. */
  readonly input: readonly string[];
  /** By key: all values of a flag that takes one, `true` for any other. */
  readonly flags: Readonly<Record<string, unknown>>;
}

/** The flags of a command, each as `FlagsOf` says. */
export type Flags = Readonly<Record<string, string | number | true | readonly string[]>>;

/** Why the flags do not fit. `unknown` names a flag that the command does not have. */
export interface Fault {
  readonly fault: string;
  readonly unknown?: string;
}

/** Flags of every command, which print a text. */
const TEXT_FLAGS = { help: { type: "boolean", shortFlag: "h" }, version: { type: "boolean", shortFlag: "v" } } as const;

/** Read the command line. `specs` has the flags of every command that it may call. */
export function parse(argv: readonly string[], specs: FlagSpecs): CommandLine {
  // Each flag that takes a value as a list, and numbers as texts: meow throws for a flag that is given twice before the
  // command is known, and reads `--limit=` as 0.
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
    // Absent flags stay absent.
    booleanDefault: undefined,
    flags: { ...TEXT_FLAGS, ...(Object.fromEntries(flags) as Record<string, { type: "string"; isMultiple: true }>) },
  });
  return { input: cli.input, flags: cli.flags };
}

/** The flags of a command from the line that `argv` was read as, or what is wrong with them. */
export function flagsOf(
  { flags }: CommandLine,
  specs: FlagSpecs,
  argv: readonly string[],
): { readonly flags: Flags } | Fault {
  const result: Record<string, Flags[string]> = {};
  // Words after `--` are no flags.
  const words = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
  for (const [key, values] of Object.entries(flags)) {
    const name = flagName(key);
    const spec = Object.hasOwn(specs, key) ? specs[key] : undefined;
    const named = words.filter((word) => word === name || word.startsWith(`${name}=`)).length;
    if (Array.isArray(values) && values.length === 0 && named === 0) continue;
    if (values === false && (spec?.type === "boolean" || Object.hasOwn(TEXT_FLAGS, key)))
      return { fault: `${name} takes no value` };
    if (!spec || (spec.type === "boolean" ? values !== true : !isTexts(values))) return unknownFlag(key, words);
    // meow leaves out a flag whose value is missing.
    if (isTexts(values) && values.length < named) return { fault: `${name} needs a value` };
    const value = isTexts(values) ? valueOf(name, spec, values) : true;
    if (typeof value === "object" && "fault" in value) return value;
    result[key] = value;
  }
  return { flags: result };
}

function isTexts(values: unknown): values is readonly [string, ...string[]] {
  return Array.isArray(values) && values.every((value) => typeof value === "string");
}

function valueOf(
  name: string,
  { type, choices, isMultiple }: FlagSpec,
  values: readonly [string, ...string[]],
): Flags[string] | Fault {
  if (isMultiple) return values;
  const [text] = values;
  if (values.length > 1) return { fault: `${name} was given twice` };
  const got = `got ${JSON.stringify(text)}`;
  if (choices && !choices.includes(text)) return { fault: `${name}: expected one of ${choices.join(", ")}, ${got}` };
  if (type !== "number") return text;
  if (/^(\d+|\d*\.\d+)$/.test(text)) return Number(text);
  return { fault: `${name}: expected a number${/^-[\d.]/.test(text) ? " that is not below 0" : ""}, ${got}` };
}

/** meow gives the key of an unknown flag only; the message has the word as it was typed. */
function unknownFlag(key: string, words: readonly string[]): Fault {
  const bare = (text: string) =>
    text
      .replace(/=[^]*/, "")
      .replace(/[^a-z0-9]/gi, "")
      .toLowerCase();
  const flags = words.filter((word) => word.startsWith("-"));
  const typed =
    flags.find((word) => bare(word) === bare(key)) ??
    flags.find((word) => /^-[^-\d]/.test(word)) ??
    flags.find((word) => bare(word).includes(bare(key))) ??
    flagName(key);
  const [name = ""] = typed.split("=");
  return { fault: `unknown flag ${name}`, unknown: name };
}
