import { findNearest } from "./nearest-name.js";

/** Forms of messages that name a rejected word and the expected words. */
const MESSAGE_FORMS: readonly RegExp[] = [
  /(?<word>[^.\s]+): unknown key; expected one of (?<names>.+)$/,
  /unknown [\w-]+ (?<word>\S+): expected (?<names>.+), a package /,
  /expected one of (?<names>.+), got "(?<word>[^"]+)"/,
];

/**
 * Appends the expected word that is most similar to the rejected word. Reads both from the message, because third-party
 * schemas report nothing else. Returns other messages unchanged.
 */
export function addSuggestion(message: string): string {
  for (const form of MESSAGE_FORMS) {
    const { word, names } = form.exec(message)?.groups ?? {};
    if (word === undefined || names === undefined) continue;
    // A name can have quotes around it, and an explanation after it.
    const expectedWords = names.split(", ").map((name) => name.replace(/^"|["\s].*$/g, ""));
    const suggestion = findNearest(word, expectedWords);
    return suggestion === undefined || suggestion === word ? message : `${message}; did you mean ${suggestion}?`;
  }
  return message;
}
