import { toCrlf, toLf } from "../../files/line-ends.js";
import { mergeLines } from "./merge-lines.js";

const EXACT_MATCH = { typography: false, blanks: false, indentation: false };

/**
 * Returns a function that maps an old text, as in the file, to its replacement. Both have one character per byte. The
 * line ends of the replacement are:
 * - those of the old text, if they are uniform;
 * - those of each line, if they are mixed;
 * - those of most of the file, if the old text has none. `usesCrlf`: whether most line ends of the file are Windows
 * line ends.
 */
export function createReplacer(requestedText: string, replacement: string, usesCrlf: boolean): (old: string) => string {
  const [lfText, crlfText] = [toLf(replacement), toCrlf(replacement)];
  return (old) => {
    // In a file with LF line ends, an exact match shows that the line ends of the edit are intended.
    if (old === requestedText && !usesCrlf) return replacement;
    const hasCrlf = old.includes("\r\n");
    const hasLf = /(?<!\r)\n/.test(old);
    if (hasCrlf && hasLf) return keepLineEnds(old, lfText, usesCrlf ? "\r" : "") ?? (usesCrlf ? crlfText : lfText);
    if (hasCrlf || (usesCrlf && !hasLf)) return crlfText;
    // The matched text has no Windows line ends. If the requested text has some, those of the replacement are the same
    // mistake.
    return requestedText.includes("\r\n") ? lfText : replacement;
  };
}

/** Keeps the line end of each old line. `lineEnd`: characters before the line feed of added lines. */
function keepLineEnds(old: string, replacement: string, lineEnd: string): string | undefined {
  const lines = old.split("\n");
  const fileLines = lines.map((line, i) => {
    const end = line.endsWith("\r") && i < lines.length - 1 ? "\r" : "";
    return { raw: end === "" ? line : line.slice(0, -1), lineEnd: i < lines.length - 1 ? end : undefined };
  });
  return mergeLines({
    ...{
      tolerance: EXACT_MATCH,
      fileLines,
      oldLines: fileLines.map(({ raw }) => raw),
      replacement: replacement.split("\n"),
    },
    ...{ lineEnd, reindent: (indent) => indent },
  });
}
