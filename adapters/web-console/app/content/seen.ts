/**
 * Text as it can be believed. Some characters are not seen, and some change where others are seen, so that a command can
 * look like another one: those are written out, wherever somebody reads a text.
 */

/** Of these, words are written with joiners that are not seen. */
const JOINED = "Arab Syrc Nkoo Mong Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr Tibt"
  .split(" ")
  .map((script) => `\\p{scx=${script}}`)
  .join("");
/** Controls, other line ends, marks of direction, what is drawn as nothing, and halves of characters. */
const UNSEEN = "\\p{Cc}\\p{Zl}\\p{Zp}\\p{Bidi_C}\\p{DI}\\p{Cs}\\uFFF9-\\uFFFB";
/** Where it belongs to what is seen: pictures of several signs, keys, letters that join. */
const BELONGS = [
  "(?<=[\\p{ExtPict}\\p{EMod}\\uFE0F])\\u200D(?=\\p{ExtPict})",
  "(?<=\\p{ExtPict})[\\uFE0E\\uFE0F]",
  "(?<=[0-9#*])\\uFE0F(?=\\u20E3)",
  `(?<=[${JOINED}])[\\u200C\\u200D]`,
].join("|");

const IN_TEXT = new RegExp(`${BELONGS}|[\\n\\t]|\\r(?=\\n)|([${UNSEEN}])`, "gu");
/** Blanks that are not the one that parts words, too. */
const IN_CODE = new RegExp(`${BELONGS}|[\\n\\t ]|([${UNSEEN}\\p{Zs}\\u2800])`, "gu");
/** More marks on one letter than any writing has: they cover what stands around it, and no line can be broken between them. */
const MARKS = /(\p{M}{8})(\p{M}+)/gu;
/** What is not seen does no harm in prose, where it stands in much that is honest; what moves the rest does. */
const IN_PROSE = /([\u202A-\u202E\u2066-\u2069])/gu;

/** Names, titles, what a tool printed: what is not seen is written out. Line ends become those of one kind. */
export function seen(text: string): string {
  return text.replace(IN_TEXT, (all: string, unseen: string | undefined) =>
    unseen === undefined ? (all === "\r" ? "" : all) : written(unseen),
  );
}

/** What somebody is asked to allow, to the letter: each character that is not what it looks like is written out. */
export function exactly(text: string): string {
  const shown = text.replace(IN_CODE, (all: string, unseen: string | undefined) =>
    unseen === undefined ? all : written(unseen),
  );
  return shown.replace(MARKS, (_all, some: string, more: string) => `${some}<${[...more].length} more marks>`);
}

/** What is read as prose: only what would change the order of the rest is written out. */
export function inOrder(text: string): string {
  return text.replace(IN_PROSE, written);
}

function written(character: string): string {
  const hex = (character.codePointAt(0) ?? 0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}
