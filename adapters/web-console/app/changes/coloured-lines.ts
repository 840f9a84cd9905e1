import type { TextRange } from "../changed-words.js";

/** A part of a line. `className` of the highlighter, or `""`. */
export interface LinePart {
  text: string;
  className: string;
  isMarked: boolean;
}

/** Maximum characters of a text that is coloured. */
const MAX_COLOURED_CHARACTERS = 100_000;
const TOKEN_PATTERN = /<span class="([^"]*)">|(<\/span>)|(\n)|([^<\n]+)/g;
const CHARACTERS: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', "#x27": "'" };

/** Colours a text by the ending of its path. Undefined if the language is unknown or the text is long. */
export async function colourLines(text: string, path: string): Promise<LinePart[][] | undefined> {
  if (text.length > MAX_COLOURED_CHARACTERS) return undefined;
  const { highlightCode } = await import("../content/highlight.js");
  const html = highlightCode(text, /\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? "");
  return html === undefined ? undefined : splitHtml(html);
}

/** Splits the highlighter's HTML, which contains only text and spans, into lines. */
function splitHtml(html: string): LinePart[][] {
  const lines: LinePart[][] = [[]];
  const classNames: string[] = [];
  for (const [, className, end, lineBreak, text] of html.matchAll(TOKEN_PATTERN)) {
    if (className !== undefined) classNames.push(className);
    else if (end !== undefined) classNames.pop();
    else if (lineBreak !== undefined) lines.push([]);
    else if (text !== undefined)
      lines.at(-1)?.push({ text: decode(text), className: classNames.at(-1) ?? "", isMarked: false });
  }
  return lines;
}

function decode(text: string): string {
  return text.replace(/&(lt|gt|amp|quot|#x27);/g, (entity, name: string) => CHARACTERS[name] ?? entity);
}

/** Splits the parts of a line at the ends of the marked ranges. */
export function markRanges(parts: readonly LinePart[], ranges: readonly TextRange[]): LinePart[] {
  let position = 0;
  return parts.flatMap((part) => {
    const [start, end] = [position, position + part.text.length];
    position = end;
    const bounds = ranges.flat().filter((bound) => bound > start && bound < end);
    return [start, ...bounds].map((from, index): LinePart => ({
      text: part.text.slice(from - start, (bounds[index] ?? end) - start),
      className: part.className,
      isMarked: ranges.some((range) => range[0] <= from && from < range[1]),
    }));
  });
}
