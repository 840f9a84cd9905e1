import { toCrlf, toLf } from "../../files/line-ends.js";
import { mergeLines } from "./merge-lines.js";

const TO_THE_LETTER = { typography: false, blanks: false, indentation: false };

/**
 * What stands in place of an old text, as the file has it, both one character a byte: with its line ends where those are of one
 * kind, with each line's own where they are not, and where it has none with those of most of the file. `crlf`: those are
 * of Windows.
 */
export function reindentReplacement(asked: string, fresh: string, crlf: boolean): (old: string) => string {
  const [plain, windows] = [toLf(fresh), toCrlf(fresh)];
  return (old) => {
    // Who names line ends that are rare in the file means to change them.
    if (old === asked && !crlf) return fresh;
    const hasWindows = old.includes("\r\n");
    const hasLf = /(?<!\r)\n/.test(old);
    if (hasWindows && hasLf) return lineByLine(old, plain, crlf ? "\r" : "") ?? (crlf ? windows : plain);
    if (hasWindows || (crlf && !hasLf)) return windows;
    // Whoever has line ends of Windows in the old text, which the file has not, has them in the new one by the same slip.
    return asked.includes("\r\n") ? plain : fresh;
  };
}

function lineByLine(old: string, fresh: string, lineEnd: string): string | undefined {
  const lines = old.split("\n");
  const found = lines.map((line, at) => {
    const end = line.endsWith("\r") && at < lines.length - 1 ? "\r" : "";
    return { raw: end === "" ? line : line.slice(0, -1), end: at < lines.length - 1 ? end : undefined };
  });
  return mergeLines({
    ...{ tolerance: TO_THE_LETTER, found, old: found.map(({ raw }) => raw), fresh: fresh.split("\n") },
    ...{ lineEnd, reindent: (indent) => indent },
  });
}
