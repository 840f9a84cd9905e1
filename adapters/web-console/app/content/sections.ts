/** Shorter texts are read at once. */
const SHORT = 16_000;
/** Characters of a section of longer ones, where a line ends there. */
const SECTION = 8_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const BLANK = /^[ \t]*$/;

/**
 * A long text in sections that can be read one after the other. They end at a blank line, where there is one, and never in a
 * block of code, however long that is. What stands between two blank lines is read in a time that grows with its square.
 */
export function sectionsOf(text: string): string[] {
  if (text.length <= SHORT) return [text];
  const sections: string[] = [];
  let from = 0;
  /** Behind the last blank line of the section. */
  let blank = 0;
  let fence: { at: number; mark: string } | undefined;
  const cut = (at: number) => {
    sections.push(text.slice(from, at));
    from = blank = at;
  };
  for (let at = 0, next = 0; at < text.length; at = next) {
    const end = text.indexOf("\n", at);
    next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, end < 0 ? next : end);
    const [, mark, rest = ""] = FENCE.exec(line) ?? [];
    if (fence) {
      if (mark?.startsWith(fence.mark) && BLANK.test(rest)) fence = undefined;
    } else if (mark !== undefined && !(mark.startsWith("`") && rest.includes("`"))) fence = { at, mark };
    else if (BLANK.test(line)) blank = next;
    if (next - from <= SECTION) continue;
    if (fence === undefined) cut(blank > from ? blank : next);
    // What begins with it is a block of code for sure, and is no work.
    else if (fence.at > from) cut(fence.at);
  }
  if (from < text.length) sections.push(text.slice(from));
  return sections;
}
