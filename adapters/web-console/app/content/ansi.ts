/** A piece of terminal output with its style. `colour`: a name of `COLOUR_NAMES`, or `""` for the default colour. */
export interface StyledText {
  text: string;
  colour: string;
  classes: string;
}

const ESCAPE = "\u001b";
const BELL = "\u0007";
const COLOUR_NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** Maximum number of codes in a style sequence. Further codes are ignored. */
const MAX_STYLE_CODES = 16;
/** Control characters, including tab and line break. */
const CONTROL_CHARACTERS = /\p{Cc}/gu;

/** Splits terminal output into styled pieces. Removes escape sequences that set neither a colour nor a style. */
export function toStyledTexts(text: string): StyledText[] {
  const styledTexts: StyledText[] = [];
  let style = { colour: "", bold: false, faint: false };
  const addText = (rawText: string) => {
    const visibleText = removeOverwrittenText(rawText);
    if (visibleText === "") return;
    const { colour } = style;
    const classes = [style.bold && "ansi-bold", style.faint && "ansi-faint"].filter(Boolean).join(" ");
    const lastStyledText = styledTexts.at(-1);
    if (lastStyledText?.classes === classes && lastStyledText.colour === colour) lastStyledText.text += visibleText;
    else styledTexts.push({ text: visibleText, classes, colour });
  };
  let textStart = 0;
  for (let escapeIndex = text.indexOf(ESCAPE); escapeIndex >= 0; escapeIndex = text.indexOf(ESCAPE, textStart)) {
    addText(text.slice(textStart, escapeIndex));
    const { end, codes } = parseSequence(text, escapeIndex);
    if (codes) style = codes.reduce(applyCode, style);
    textStart = end;
  }
  addText(text.slice(textStart));
  return styledTexts;
}

/** Text without escape sequences. */
export function toPlainText(text: string): string {
  return toStyledTexts(text)
    .map((styledText) => styledText.text)
    .join("");
}

/** Finds the end of the escape sequence at `start`. `codes`: set for colour and style sequences only. */
function parseSequence(text: string, start: number): { end: number; codes?: number[] } {
  const kind = text[start + 1];
  if (kind === "[") {
    let end = start + 2;
    while (end < text.length && !/[@-~]/.test(text[end] ?? "")) end += 1;
    const codes =
      text[end] === "m"
        ? text
            .slice(start + 2, end)
            .split(";")
            .slice(0, MAX_STYLE_CODES)
            .map(Number)
        : undefined;
    return { end: end + 1, ...(codes && { codes }) };
  }
  if (kind === "]") {
    // A title or a link ends with a bell or `ESC \`.
    const bellIndex = text.indexOf(BELL, start);
    const terminatorIndex = text.indexOf(`${ESCAPE}\\`, start);
    if (bellIndex >= 0 && (terminatorIndex < 0 || bellIndex < terminatorIndex)) return { end: bellIndex + 1 };
    return { end: terminatorIndex < 0 ? start + 2 : terminatorIndex + 2 };
  }
  return { end: start + 2 };
}

/** Applies a code of a style sequence (SGR). Codes 30 to 37 and 90 to 97 are colours; unknown codes change nothing. */
function applyCode(style: { colour: string; bold: boolean; faint: boolean }, code: number) {
  if (code === 0) return { colour: "", bold: false, faint: false };
  if (code === 1) return { ...style, bold: true };
  if (code === 2) return { ...style, faint: true };
  if (code === 22) return { ...style, bold: false, faint: false };
  if (code === 39) return { ...style, colour: "" };
  const colour = COLOUR_NAMES[code >= 90 ? code - 90 : code - 30];
  return colour === undefined ? style : { ...style, colour };
}

/**
 * Keeps the last part of a line with carriage returns, as a terminal does for progress bars. Removes other control
 * characters.
 */
function removeOverwrittenText(text: string): string {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return lines
    .map((line) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1))
    .join("\n")
    .replace(CONTROL_CHARACTERS, (control) => (control === "\n" || control === "\t" ? control : ""));
}
