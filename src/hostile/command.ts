/** One word of a command. */
export interface Word {
  /** What the program gets; of one that is not known how it is written. */
  readonly text: string;
  /** False where a variable, a substitution or a file name pattern takes part. */
  readonly known: boolean;
  /** Whether it may become none, or several. */
  readonly many: boolean;
  /** Whether a part of it is quoted: no shell takes it for a word of its own language then. */
  readonly quoted: boolean;
  /** Whether it has the form `A=1`. */
  readonly assigns: boolean;
}

/** One program that would be started. */
export interface Command {
  /** With the variables set for it alone, `A=1`. Empty where there is a redirection and no program. */
  readonly words: readonly Word[];
  /** How many of the words set a variable. */
  readonly assigned: number;
  /** Whether its input or output is a file. */
  readonly files: boolean;
  /** Whether it does nothing but start the commands that are told of beside it. */
  readonly starter: boolean;
}

/** Thrown for what is not understood. */
export class NotUnderstood extends Error {}
