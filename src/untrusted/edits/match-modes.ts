import type { MatchTolerance } from "./text-views.js";

/** What is overlooked, and what a model is told of it. */
export interface MatchMode extends MatchTolerance {
  readonly how: string;
}

/** The ways to overlook slips, each less near to the letter than the one before; blanks at the ends of lines in all of them. */
export const MATCH_MODES: readonly MatchMode[] = [
  { typography: false, blanks: false, indentation: false, how: "blanks at the ends of lines differ" },
  { typography: true, blanks: false, indentation: false, how: "quotes, dashes or spaces are others" },
  { typography: false, blanks: false, indentation: true, how: "indentation differs" },
  { typography: true, blanks: false, indentation: true, how: "indentation, quotes, dashes or spaces are others" },
  { typography: true, blanks: true, indentation: false, how: "blanks between words differ" },
  { typography: true, blanks: true, indentation: true, how: "indentation and blanks between words differ" },
];

/** What is told beside that of lines that were found with another indentation. */
export const REINDENTED = "the new text was indented as the file is";
