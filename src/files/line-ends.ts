/** Maximum line ends that are counted, to limit the time for long files. */
const MAX_COUNTED_LINE_ENDS = 10_000;

/**
 * Whether most line ends of a file (as Latin-1) are CR LF. In a long file, only the first `MAX_COUNTED_LINE_ENDS`
 * count.
 */
export function prefersCrlf(latin1Text: string): boolean {
  let crlfCount = 0;
  let lfCount = 0;
  for (
    let lineEnd = latin1Text.indexOf("\n");
    lineEnd >= 0 && crlfCount + lfCount < MAX_COUNTED_LINE_ENDS;
    lineEnd = latin1Text.indexOf("\n", lineEnd + 1)
  ) {
    if (latin1Text[lineEnd - 1] === "\r") crlfCount++;
    else lfCount++;
  }
  return crlfCount > lfCount;
}

export function toCrlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

/** Converts CR LF to LF, for comparisons. A single CR stays. */
export function toLf(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
