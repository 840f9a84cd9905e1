import { toCrlf, toLf } from "../../files/line-ends.js";
import { mergeLines } from "./merge-lines.js";

const EXACT = { typography: false, blanks: false, indentation: false };

/**
 * Returns a function that maps an old text, as in the file, to its replacement; both have one character per byte. Line
 * ends of the replacement:
 * - those of the old text, if they are uniform;
 * - those of each line, if they are mixed;
 * - those of most of the file, if the old text has none. `crlf`: these are Windows line ends.
 */
export function reindentReplacement(requestedText: string, fresh: string, crlf: boolean): (old: string) => string {
  const [plain, windows] = [toLf(fresh), toCrlf(fresh)];
  return (old) => {
    // If the edit names line ends that are rare in the file, it intends to change them.
    if (old === requestedText && !crlf) return fresh;
    const hasWindows = old.includes("\r\n");
    const hasLf = /(?<!\r)\n/.test(old);
    if (hasWindows && hasLf) return lineByLine(old, plain, crlf ? "\r" : "") ?? (crlf ? windows : plain);
    if (hasWindows || (crlf && !hasLf)) return windows;
    // If the old text has Windows line ends and the file has none, those of the new text are the same mistake.
    return requestedText.includes("\r\n") ? plain : fresh;
  };
}

function lineByLine(old: string, fresh: string, lineEnd: string): string | undefined {
  const lines = old.split("\n");
  const fileLines = lines.map((line, at) => {
    const end = line.endsWith("\r") && at < lines.length - 1 ? "\r" : "";
    return { raw: end === "" ? line : line.slice(0, -1), end: at < lines.length - 1 ? end : undefined };
  });
  return mergeLines({
    ...{ tolerance: EXACT, fileLines, old: fileLines.map(({ raw }) => raw), fresh: fresh.split("\n") },
    ...{ lineEnd, reindent: (indent) => indent },
  });
}
