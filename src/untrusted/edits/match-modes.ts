import type { MatchTolerance } from "./text-views.js";

/** Ignored differences, with a description for the model. */
export interface MatchMode extends MatchTolerance {
  readonly differences: string;
}

/** Match modes from strict to tolerant. All of them ignore blanks at the ends of lines. */
export const MATCH_MODES: readonly MatchMode[] = [
  { typography: false, blanks: false, indentation: false, differences: "trailing whitespace differs" },
  { typography: true, blanks: false, indentation: false, differences: "quotes, dashes or spaces differ" },
  { typography: false, blanks: false, indentation: true, differences: "indentation differs" },
  { typography: true, blanks: false, indentation: true, differences: "indentation, quotes, dashes or spaces differ" },
  { typography: true, blanks: true, indentation: false, differences: "whitespace between words differs" },
  { typography: true, blanks: true, indentation: true, differences: "indentation and whitespace between words differ" },
];

/** Maximum matches whose lines an error message lists. */
export const MAX_LISTED_MATCHES = 10;

/** Added to the description if lines matched with another indentation. */
export const REINDENT_NOTE = "the new text was indented like the file";
