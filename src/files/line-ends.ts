/** Whether a file (as latin1) ends most of its lines with CR LF. */
export function prefersCrlf(latin: string): boolean {
  let crlf = 0;
  let lf = 0;
  for (let at = latin.indexOf("\n"); at >= 0 && crlf + lf < 10_000; at = latin.indexOf("\n", at + 1)) {
    if (latin[at - 1] === "\r") crlf++;
    else lf++;
  }
  return crlf > lf;
}

export function toCrlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

/** Converts line ends for comparison. */
export function toLf(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
