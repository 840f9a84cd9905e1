import type { MatchTolerance } from "./text-views.js";

/** Ignored differences, with a description for the model. */
export interface MatchMode extends MatchTolerance {
  readonly how: string;
}

/** Match modes from strict to tolerant. All of them ignore blanks at the ends of lines. */
export const MATCH_MODES: readonly MatchMode[] = [
  { typography: false, blanks: false, indentation: false, how: "blanks at the ends of lines differ" },
  { typography: true, blanks: false, indentation: false, how: "quotes, dashes or spaces are others" },
  { typography: false, blanks: false, indentation: true, how: "indentation differs" },
  { typography: true, blanks: false, indentation: true, how: "indentation, quotes, dashes or spaces are others" },
  { typography: true, blanks: true, indentation: false, how: "blanks between words differ" },
  { typography: true, blanks: true, indentation: true, how: "indentation and blanks between words differ" },
];

/** Added to the description if lines matched with another indentation. */
export const REINDENTED = "the new text was indented as the file is";
