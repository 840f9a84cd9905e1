/** A piece of terminal output with its CSS classes and colour name. "" is the default colour. */
export interface Piece {
  text: string;
  colour: string;
  classes: string;
}

const ESCAPE = "\u001b";
const BELL = "\u0007";
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** Control characters, including tab and line break. */
const CONTROL = /\p{Cc}/gu;

/** Splits terminal output into coloured pieces. Escape sequences other than colours and styles are removed. */
export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let style = { colour: "", bold: false, faint: false };
  const put = (rawText: string) => {
    const shown = overwritten(rawText);
    if (shown === "") return;
    const { colour } = style;
    const classes = [style.bold && "ansi-bold", style.faint && "ansi-faint"].filter(Boolean).join(" ");
    const last = pieces.at(-1);
    if (last?.classes === classes && last.colour === colour) last.text += shown;
    else pieces.push({ text: shown, classes, colour });
  };
  let from = 0;
  for (let at = text.indexOf(ESCAPE); at >= 0; at = text.indexOf(ESCAPE, from)) {
    put(text.slice(from, at));
    const { end, codes } = sequenceAt(text, at);
    if (codes) style = codes.reduce(styled, style);
    from = end;
  }
  put(text.slice(from));
  return pieces;
}

/** Text without escape sequences. */
export function plainOf(text: string): string {
  return piecesOf(text)
    .map((piece) => piece.text)
    .join("");
}

/** Finds the end of the escape sequence at `at`. `codes` is set for colour and style sequences. */
function sequenceAt(text: string, at: number): { end: number; codes?: number[] } {
  const kind = text[at + 1];
  if (kind === "[") {
    let end = at + 2;
    while (end < text.length && !/[@-~]/.test(text[end] ?? "")) end += 1;
    const codes =
      text[end] === "m"
        ? text
            .slice(at + 2, end)
            .split(";")
            .slice(0, 16)
            .map(Number)
        : undefined;
    return { end: end + 1, ...(codes && { codes }) };
  }
  if (kind === "]") {
    // A title or a link ends with a bell or `ESC \`.
    const bell = text.indexOf(BELL, at);
    const stop = text.indexOf(`${ESCAPE}\\`, at);
    if (bell >= 0 && (stop < 0 || bell < stop)) return { end: bell + 1 };
    return { end: stop < 0 ? at + 2 : stop + 2 };
  }
  return { end: at + 2 };
}

function styled(style: { colour: string; bold: boolean; faint: boolean }, code: number) {
  if (code === 0) return { colour: "", bold: false, faint: false };
  if (code === 1) return { ...style, bold: true };
  if (code === 2) return { ...style, faint: true };
  if (code === 22) return { ...style, bold: false, faint: false };
  if (code === 39) return { ...style, colour: "" };
  const colour = COLOURS[code >= 90 ? code - 90 : code - 30];
  return colour === undefined ? style : { ...style, colour };
}

/**
 * Keeps the last part of a line with carriage returns, as a terminal does for progress bars. Removes other control
 * characters.
 */
function overwritten(text: string): string {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  return lines
    .map((line) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1))
    .join("\n")
    .replace(CONTROL, (control) => (control === "\n" || control === "\t" ? control : ""));
}
