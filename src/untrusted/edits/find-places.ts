import { toLf } from "../../files/line-ends.js";
import { placesOf, replaceAt } from "./find-text.js";

/** Where something is in a file, ascending, by how it stands there: as often as its line ends differ. */
export type Places = ReadonlyMap<string, readonly number[]>;

/**
 * Where a text is in a file, both one character a byte. Line ends count alike, since who was shown the file did not see which
 * it has; those of Windows that are asked for are found to the letter first. None is cut in two.
 */
export function findPlaces(latin: string, part: string): Places {
  const ends = windowsEnds(latin);
  if (part.includes("\r") && ends.length > 0) {
    const exact = placesOf(latin, part);
    const whole = exact.filter((at) => !isWithinEnd(latin, at) && !isWithinEnd(latin, at + part.length));
    if (whole.length > 0) return new Map([[part, whole]]);
  }
  const plain = toLf(part);
  if (ends.length === 0) return groups(plain, placesOf(latin, plain));
  const found = new Map<string, number[]>();
  // How many of them lie before a place, of places that only rise.
  let passed = 0;
  const inFile = (at: number): number => {
    while (passed < ends.length && (ends[passed] ?? 0) < at) passed++;
    return at + passed;
  };
  for (const place of placesOf(toLf(latin), plain)) {
    const start = inFile(place);
    const text = latin.slice(start, inFile(place + plain.length));
    const known = found.get(text);
    if (known) known.push(start);
    else found.set(text, [start]);
  }
  return found;
}

/** A text with something in the place of each. */
export function replacePlaces(text: string, places: Places, freshFor: (old: string) => string): string {
  const [first, ...others] = places;
  if (first && others.length === 0) return replaceAt(text, first[1], first[0].length, freshFor(first[0]));
  const all = [...places].flatMap(([old, some]) => some.map((at) => ({ at, old }))).sort((one, two) => one.at - two.at);
  const pieces: string[] = [];
  let from = 0;
  for (const { at, old } of all) {
    pieces.push(text.slice(from, at), freshFor(old));
    from = at + old.length;
  }
  pieces.push(text.slice(from));
  return pieces.join("");
}

function groups(text: string, places: readonly number[]): Places {
  return places.length > 0 ? new Map([[text, places]]) : new Map<string, number[]>();
}

function isWithinEnd(latin: string, at: number): boolean {
  return latin[at - 1] === "\r" && latin[at] === "\n";
}

/** Where the line ends of Windows are when each is one character. */
function windowsEnds(latin: string): number[] {
  const ends: number[] = [];
  for (let at = latin.indexOf("\r\n"); at >= 0; at = latin.indexOf("\r\n", at + 2)) ends.push(at - ends.length);
  return ends;
}
