import { KEY_PATTERNS } from "./secret-detection.js";

/** Text that replaces a secret. */
const REDACTED = "[redacted]";

/** Placeholders that users configure for servers that accept any key. Redacting them would hide ordinary words. */
const PLACEHOLDERS = new Set([
  ...["none", "null", "empty", "dummy", "test", "local", "localhost", "default", "anything"],
  ...["changeme", "your-api-key"],
  ...["ollama", "lm-studio", "lmstudio", "vllm", "llamacpp", "llama.cpp", "llama-cpp", "openai", "anthropic"],
  ...["no-key", "nokey", "no-key-needed", "no-key-required", "sk-no-key-required"],
  ...["not-needed", "not-required", "unused"],
]);

/** Minimum length of a secret, in characters. Shorter values are ordinary words. */
const MIN_SECRET_CHARACTERS = 4;
/** Minimum length, in characters, of a piece of an encoded or split secret. Shorter matches are chance. */
const MIN_PIECE_CHARACTERS = 16;
/** Length, in characters, of the parts of a secret that are searched first, because a match contains one of them. */
const GRAM_CHARACTERS = 8;
/** Maximum length of a key, in characters. A file in a variable is matched by its lines and its start. */
const MAX_SECRET_CHARACTERS = 4_096;
/** Maximum length of the encoded form of one character, as in `\u0000`. */
const MAX_ENCODED_CHARACTERS = 6;
/** Characters of `reach` beyond the longest form of a secret. */
const EXTRA_REACH_CHARACTERS = 64;

/** Removes secrets from texts: known secrets in any form, and text that looks like a key. */
export class Redactor {
  readonly #secrets: () => Iterable<string>;
  #knownSecrets: readonly string[] = [];
  /** Forms that are redacted only as a whole, longest first. */
  #fullForms: readonly string[] = [];
  /** Forms of which parts are redacted too, without gaps. */
  #splittableForms: readonly { text: string; isHex: boolean }[] = [];

  /** @param secrets A function is called for each text, because keys are also found during a run. */
  constructor(secrets: Iterable<string> | (() => Iterable<string>)) {
    this.#secrets = typeof secrets === "function" ? secrets : () => secrets;
  }

  /** Longest stretch of text, in characters, that one secret can take in any of its forms. */
  get reach(): number {
    this.#updateForms();
    const lengths = this.#knownSecrets.map(({ length }) => Math.min(length, MAX_SECRET_CHARACTERS));
    return EXTRA_REACH_CHARACTERS + MAX_ENCODED_CHARACTERS * Math.max(0, ...lengths);
  }

  /**
   * Returns the text without the known secrets. Secrets are found in these forms:
   * - unchanged
   * - escaped for JSON or a URL
   * - in base64 or hex
   * - wrapped into lines
   * - in pieces of at least 16 characters, as a cut leaves them
   */
  hide(text: string): string {
    return this.#hidePieces(this.#hideWhole(text));
  }

  /** As `hide`, and also removes text that looks like a key. */
  redact(text: string): string {
    let result = this.#hideWhole(text);
    // Runs before pieces are removed. Otherwise a key that shares a piece with a known secret would be removed only in
    // part.
    for (const pattern of KEY_PATTERNS) result = result.replace(pattern, REDACTED);
    return this.#hidePieces(result);
  }

  /**
   * Number of characters of a streamed text that can be shown now. The end may contain the start of a secret, which
   * `hide` recognizes only with the text after it.
   */
  settledLength(text: string): number {
    this.#updateForms();
    const start = Math.max(0, text.length - this.reach);
    const tail = text.slice(start);
    const partialMatchLengths = this.#fullForms.map((form) => partialFormLength(tail, form));
    for (const isHex of [false, true]) {
      const forms = this.#splittableForms.filter((form) => form.isHex === isHex);
      if (forms.length === 0) continue;
      const notation = normalizeNotation(tail, isHex);
      const compactText = removeGaps(notation);
      const length = Math.max(...forms.map((form) => partialPieceLength(compactText, form.text)));
      if (length > 0) partialMatchLengths.push(lengthWithGaps(notation, length));
    }
    return text.length - Math.max(0, ...partialMatchLengths);
  }

  #hideWhole(text: string): string {
    this.#updateForms();
    let result = text;
    for (const form of this.#fullForms) if (result.includes(form)) result = result.replaceAll(form, REDACTED);
    return result;
  }

  #hidePieces(text: string): string {
    if (this.#splittableForms.length === 0 || text.length < GRAM_CHARACTERS) return text;
    return this.#hideForms(this.#hideForms(text, false), true);
  }

  #updateForms(): void {
    const secrets = [...this.#secrets()];
    if (secrets.length === this.#knownSecrets.length && secrets.every((secret, i) => secret === this.#knownSecrets[i]))
      return;
    this.#knownSecrets = secrets;
    const fullForms = new Set<string>();
    const splittableForms = new Map<string, boolean>();
    for (const secret of secrets.flatMap(secretParts)) {
      fullForms
        .add(secret)
        .add(JSON.stringify(secret).slice(1, -1))
        .add(encodeURIComponent(Buffer.from(secret).toString()));
      splittableForms.set(removeGaps(secret), false);
      const bytes = Buffer.from(secret);
      if (bytes.length < GRAM_CHARACTERS) continue;
      for (const form of base64Forms(bytes)) splittableForms.set(form, false);
      splittableForms.set(bytes.toString("hex"), true);
    }
    // Longest first, so that a secret within a longer secret leaves no remainder.
    this.#fullForms = [...fullForms].sort((a, b) => b.length - a.length);
    this.#splittableForms = [...splittableForms].flatMap(([text, isHex]) =>
      text.length < GRAM_CHARACTERS ? [] : [{ text, isHex }],
    );
  }

  #hideForms(text: string, isHex: boolean): string {
    const notation = normalizeNotation(text, isHex);
    const compactText = removeGaps(notation);
    const ranges: [number, number][] = [];
    for (const form of this.#splittableForms) if (form.isHex === isHex) addMatches(compactText, form.text, ranges);
    if (ranges.length === 0) return text;
    // Position in the text of each character of `compactText`. Computed only here, because most texts contain no
    // secret.
    const positions: number[] = [];
    for (let i = 0; i < notation.length; i++) if (!isGap(notation.charCodeAt(i))) positions.push(i);
    ranges.sort((a, b) => a[0] - b[0]);
    let result = "";
    let copiedEnd = 0;
    for (const [compactStart, compactEnd] of ranges) {
      const start = positions[compactStart] ?? text.length;
      const end = (positions[compactEnd - 1] ?? text.length - 1) + 1;
      if (end <= copiedEnd) continue;
      if (start >= copiedEnd) result += text.slice(copiedEnd, start) + REDACTED;
      copiedEnd = end;
    }
    return result + text.slice(copiedEnd);
  }
}

/** Replaces the given secrets and text that looks like a key. */
export function redact(text: string, secrets: Iterable<string> = []): string {
  return new Redactor(secrets).redact(text);
}

/** Parts of a secret to look for: a header's value also without its scheme, a text of several lines also by lines. */
function secretParts(secret: string): string[] {
  const parts = new Set([secret, secret.replace(/^(Bearer|Basic|Token)\s+/i, "")]);
  for (const line of secret.includes("\n") ? secret.split(/\r?\n/) : [])
    if (line.length >= MIN_PIECE_CHARACTERS) parts.add(line);
  return [...parts]
    .map((part) => part.slice(0, MAX_SECRET_CHARACTERS))
    .filter((part) => part.trim().length >= MIN_SECRET_CHARACTERS && !PLACEHOLDERS.has(part.toLowerCase()));
}

/** Base64 forms of a secret within a longer text, for each of the three alignments. */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((paddingBytes) => {
    const text = Buffer.concat([Buffer.alloc(paddingBytes), bytes]).toString("base64");
    const start = paddingBytes === 0 ? 0 : paddingBytes + 1;
    // The last character may contain bits of the next byte.
    const form = text.slice(start, Math.floor(((paddingBytes + bytes.length) * 8) / 6));
    return [form, form.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

/** Normalizes hex notation if `isHex`. The length stays the same, so positions are valid in the original text. */
function normalizeNotation(text: string, isHex: boolean): string {
  return isHex
    ? text
        .replace(/\\x|0x/gi, "  ")
        .replaceAll("%", " ")
        .replace(/[A-F]+/g, (digits) => digits.toLowerCase())
    : text;
}

/** Length of the longest start of `form`, without its last character, at the end of `text`. 0 if there is none. */
function partialFormLength(text: string, form: string): number {
  let length = Math.min(form.length - 1, text.length);
  while (length > 0 && !text.endsWith(form.slice(0, length))) length -= 1;
  return length;
}

/**
 * Length of the longest piece of `form` at the end of `text`. 0 if the form is complete or the piece is too short to be
 * more than chance.
 */
function partialPieceLength(text: string, form: string): number {
  let length = MIN_SECRET_CHARACTERS;
  if (text.length < length || !form.includes(text.slice(-length))) return 0;
  while (length < text.length && form.includes(text.slice(-length - 1))) length += 1;
  return length === form.length ? 0 : length;
}

/** Length of the end of `text` that contains `characters` characters other than gaps. */
function lengthWithGaps(text: string, characters: number): number {
  let position = text.length;
  for (let remaining = characters; remaining > 0; position -= 1)
    if (!isGap(text.charCodeAt(position - 1))) remaining -= 1;
  return text.length - position;
}

/** Line ends, spaces, and separators that programs put between hex bytes. */
function isGap(code: number): boolean {
  // The codes of a colon and a comma.
  return code <= 32 || code === 0x3a || code === 0x2c;
}

function removeGaps(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0020:,]+/g, "");
}

/**
 * Adds the ranges of `text` that contain pieces of `form`: pieces of at least 16 characters, or all of a shorter form.
 * Next to an ellipsis, which marks a cut, shorter pieces also count, because other text cannot be there.
 */
function addMatches(text: string, form: string, ranges: [number, number][]): void {
  const minLength = Math.min(MIN_PIECE_CHARACTERS, form.length);
  // Every piece that is long enough contains one of these grams completely.
  const offsets = Array.from({ length: Math.floor(form.length / GRAM_CHARACTERS) }, (_, i) => i * GRAM_CHARACTERS);
  for (const offset of [...offsets, form.length - GRAM_CHARACTERS]) {
    const gram = form.slice(offset, offset + GRAM_CHARACTERS);
    for (let matchStart = text.indexOf(gram); matchStart !== -1;) {
      let start = matchStart;
      let end = matchStart + GRAM_CHARACTERS;
      for (let i = offset; i > 0 && start > 0 && text[start - 1] === form[i - 1]; i--) start--;
      for (let i = offset + GRAM_CHARACTERS; i < form.length && end < text.length && text[end] === form[i]; i++) end++;
      const isMatch = end - start >= minLength || text[start - 1] === "…" || text[end] === "…";
      if (isMatch) ranges.push([start, end]);
      matchStart = text.indexOf(gram, isMatch ? end : matchStart + 1);
    }
  }
}
