/** Whether a file (as latin1) ends most of its lines with CR LF. */
export function prefersCrlf(latin: string): boolean {
  let crlfCount = 0;
  let lfCount = 0;
  for (
    let lineEnd = latin.indexOf("\n");
    lineEnd >= 0 && crlfCount + lfCount < 10_000;
    lineEnd = latin.indexOf("\n", lineEnd + 1)
  ) {
    if (latin[lineEnd - 1] === "\r") crlfCount++;
    else lfCount++;
  }
  return crlfCount > lfCount;
}

export function toCrlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

/** Converts line ends for comparison. */
export function toLf(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
