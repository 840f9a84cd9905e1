import type { FilePart, ImagePart } from "./message.js";

/** What a slash command says to the model. */
export interface SlashPrompt {
  text: string;
  parts?: readonly (ImagePart | FilePart)[];
}

/** Something that a person says by `/name words`: a prompt that was written before. */
export interface SlashCommand {
  /** Without the slash; no white space. */
  readonly name: string;
  /** One line. */
  readonly description: string;
  /** What to type behind the name; `""`: nothing. */
  readonly hint: string;
  /** Where it comes from, for people: `.agents/commands/review.md`, `mcp:github`. */
  readonly origin: string;
  /** What the model is told, by the words typed behind the name. Throws `InputError` where they do not do. */
  prompt(words: string, signal: AbortSignal): Promise<SlashPrompt>;
}
