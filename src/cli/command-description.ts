export interface FlagSpec {
  readonly type: "boolean" | "string" | "number";
  /** Whether the flag can be repeated. Its value is then a list. For string flags only. */
  readonly isMultiple?: true;
  /** Placeholder of the value in the help, such as `FILE`. */
  readonly value?: string;
  /** One-line description for help and completion. */
  readonly description: string;
  /** The permitted values. Undefined: any value. */
  readonly choices?: readonly string[];
  /** The kind of value that shells complete. */
  readonly completionKind?: "file" | "folder";
}

/** Flags by key: `sessionDriver` is `--session-driver`. */
export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

/** Description of a command. The parser of flags, the help and the shell completion use it. */
export interface CommandDescription<F extends FlagSpecs = FlagSpecs> {
  /** Full name as typed: `serve`, `sessions list`. */
  readonly name: string;
  /** Summary for the list of commands, on one line without a full stop. */
  readonly summary: string;
  /** The words after the command's name, one line for each form. */
  readonly usage: readonly string[];
  /** Flags of the command, without `--help` and `--version`. */
  readonly flags: F;
  /** Subcommands by name. Undefined if the command has none. */
  readonly commands?: Readonly<Record<string, CommandDescription>>;
  /** Possible values of the first argument, for completion. */
  readonly firstArguments?: readonly string[];
  /** Exit code if the flags are invalid. Default 1. */
  readonly usageExitCode?: number;
}

/** Parsed flags as a command receives them. Absent flags are undefined. */
export type FlagsOf<F extends FlagSpecs> = {
  readonly [Key in keyof F]?:
    | (F[Key] extends { isMultiple: true }
        ? readonly string[]
        : F[Key]["type"] extends "boolean"
          ? true
          : F[Key]["type"] extends "number"
            ? number
            : string)
    | undefined;
};

/** Returns the flag for a key: `--session-driver` for `sessionDriver`. */
export function toFlag(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
