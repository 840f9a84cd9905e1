import { toCrlf, toLf } from "../../files/line-ends.js";
import { mergeLines } from "./merge-lines.js";

const EXACT_MATCH = { typography: false, blanks: false, indentation: false };

/**
 * Returns a function that maps an old text, as in the file, to its replacement; both have one character per byte. Line
 * ends of the replacement:
 * - those of the old text, if they are uniform;
 * - those of each line, if they are mixed;
 * - those of most of the file, if the old text has none. `usesCrlf`: these are Windows line ends.
 */
export function createReplacer(requestedText: string, replacement: string, usesCrlf: boolean): (old: string) => string {
  const [lfText, crlfText] = [toLf(replacement), toCrlf(replacement)];
  return (old) => {
    // If the edit names line ends that are rare in the file, it intends to change them.
    if (old === requestedText && !usesCrlf) return replacement;
    const hasCrlf = old.includes("\r\n");
    const hasLf = /(?<!\r)\n/.test(old);
    if (hasCrlf && hasLf) return keepLineEnds(old, lfText, usesCrlf ? "\r" : "") ?? (usesCrlf ? crlfText : lfText);
    if (hasCrlf || (usesCrlf && !hasLf)) return crlfText;
    // If the old text has Windows line ends and the file has none, those of the new text are the same mistake.
    return requestedText.includes("\r\n") ? lfText : replacement;
  };
}

function keepLineEnds(old: string, replacement: string, lineEnd: string): string | undefined {
  const lines = old.split("\n");
  const fileLines = lines.map((line, i) => {
    const end = line.endsWith("\r") && i < lines.length - 1 ? "\r" : "";
    return { raw: end === "" ? line : line.slice(0, -1), end: i < lines.length - 1 ? end : undefined };
  });
  return mergeLines({
    ...{
      tolerance: EXACT_MATCH,
      fileLines,
      old: fileLines.map(({ raw }) => raw),
      replacement: replacement.split("\n"),
    },
    ...{ lineEnd, reindent: (indent) => indent },
  });
}
