import type { FilePart, ImagePart } from "./message.js";

/** Prompt of a slash command, for the model. */
export interface SlashPrompt {
  text: string;
  parts?: readonly (ImagePart | FilePart)[];
}

/** A prepared prompt that a person invokes with `/name words`. */
export interface SlashCommand {
  /** Name without the slash and without white space. */
  readonly name: string;
  /** Single line. */
  readonly description: string;
  /** Hint on the arguments to type after the name; `""` for a command without arguments. */
  readonly hint: string;
  /** Source of the command, for people: `.agents/commands/review.md`, `mcp:github`. */
  readonly origin: string;
  /** Returns the prompt for the words typed after the name. Throws `InputError` if the words are invalid. */
  prompt(words: string, signal: AbortSignal): Promise<SlashPrompt>;
}
