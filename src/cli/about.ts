export interface FlagSpec {
  readonly type: "boolean" | "string" | "number";
  /** May be given more than once; all values are kept. Only of strings. */
  readonly isMultiple?: true;
  /** What stands for its value in help: `FILE`. */
  readonly value?: string;
  /** One line. */
  readonly about: string;
  /** The only values that there are. */
  readonly choices?: readonly string[];
  /** What a shell offers for its value. */
  readonly completes?: "file" | "folder";
}

/** Flags by their key: `sessionDriver` is `--session-driver`. */
export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

/** What a command says of itself: its flags are read by it, its help and its completion are made of it. */
export interface About<F extends FlagSpecs = FlagSpecs> {
  /** As it is typed: `serve`, `sessions list`. */
  readonly name: string;
  /** One line without an end, for the list of commands. */
  readonly summary: string;
  /** What stands behind the name, a line for each way to call it. */
  readonly usage: readonly string[];
  /** The flags that it takes, besides `--help` and `--version`. */
  readonly flags: F;
  /** Further paragraphs of its help. */
  readonly details?: string;
  /** What follows the name, where its first word chooses a command of its own. */
  readonly commands?: Readonly<Record<string, About>>;
  /** The values that its first word may have, for completion. */
  readonly words?: readonly string[];
  /** Exit code where its flags are wrong; default 1. */
  readonly wrongUsage?: number;
}

/** What a command is given of its flags; those that were not said are left out. */
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

/** `--session-driver` of `sessionDriver`. */
export function flagName(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
