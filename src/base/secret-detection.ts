// Detects secrets in settings, headers and environment variables, by a name such as API_KEY or by the format of keys.

import { attempt } from "./attempt.js";

/**
 * Usual formats of keys, for any provider, as global expressions. The texts are untrusted, so each pattern limits how
 * far it scans.
 */
export const KEY_PATTERNS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|xai|gsk|csk|nvapi|fw|pplx|hf|r8|tgp|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_-]{12,}/g,
  /\bAIza[A-Za-z0-9_-]{20,}/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\beyJ[A-Za-z0-9_-]{8,500}\.[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]*)?/g,
  /(?<=\bBearer\s{1,4})[^\s"',;[\]]{6,}/gi,
  /(?<=\bBasic\s{1,4})[A-Za-z0-9+/=_-]{8,}/gi,
  /(?<=[?&](?:key|api_key|token|access_token)=)[^\s&"'[\]]+/gi,
  /(?<=\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s/:@"']{0,100}:)[^\s/@"'[\]]{4,}(?=@)/gi,
];

/** Whether a value looks like a key: by a provider's prefix, or because people do not write such text by hand. */
export function looksSecret(value: string): boolean {
  // `search` instead of `test`: `test` continues at the position of the last match.
  if (KEY_PATTERNS.some((pattern) => value.search(pattern) !== -1)) return true;
  // A word of 32 hex digits, or of 16 characters with lower case, upper case and two digits, is not written by hand.
  return value
    .split(/[^A-Za-z0-9]+/)
    .some(
      (word) =>
        /^[0-9a-f]{32,}$/i.test(word) ||
        (word.length >= 16 && /[a-z]/.test(word) && /[A-Z]/.test(word) && (word.match(/\d/g)?.length ?? 0) >= 2),
    );
}

/** Names of settings, environment variables and headers that hold keys. */
const SECRET_NAME_PATTERN =
  /(^|[-_.])(api[-_]?key|apikey|token|tokens|password|passwd|passphrase|secret|secrets|credentials?|(access|private|auth|signing|secret|master|service)[-_]?key|authorization|auth|cookie)$|^(x[-_])?[a-z0-9-]*[-_]?key$|[-_](key|pass|pat|pw)$/i;

/** Whether a value with this name is a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME_PATTERN.test(name);
}

/** Headers that describe the request or the client and hold no secret. */
const PLAIN_HEADER_PATTERN =
  /version|beta|accept|content|encoding|language|user-agent|referer|origin|host|title|name|model|region|feature|cache|date/i;

/**
 * Secret values among the headers of a request, by the header's name or because the value looks like a key. In a
 * nonstandard header, any single word with digits counts as a secret.
 */
export function headerSecrets(headers: Readonly<Record<string, unknown>>): string[] {
  const isLikelyKey = (name: string, value: string) =>
    !PLAIN_HEADER_PATTERN.test(name) && /^[^\s/=]{12,}$/.test(value) && /\d.*\d/.test(value) && /[a-z]/i.test(value);
  return Object.entries(headers).flatMap(([name, value]) =>
    typeof value === "string" && (isSecretName(name) || looksSecret(value) || isLikelyKey(name, value)) ? [value] : [],
  );
}

/**
 * Names such as `SORT_KEY` and `CACHE_KEY`: their values are secrets only if they are not words, because such words
 * occur in many files.
 */
const AMBIGUOUS_NAME_PATTERN = /(?<!(api|access|private|auth|signing|secret|master|service)[-_]?)key$|auth$/i;
const PLAIN_WORDS_PATTERN = /^[a-z]{1,15}([-_./+ ][a-z]{1,15})*$/;

/**
 * Secrets in environment variables: passwords in URLs, values that look like keys, and values of variables with a name
 * like `API_KEY`. A path or a plain word is not a secret.
 */
export function environmentSecrets(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(environment).flatMap(([name, value = ""]) => {
    const password = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]*?:([^\s/?#]+)@/i.exec(value)?.[1];
    if (password !== undefined) return [password, decodeUri(password)].filter(isPossibleSecret);
    if (
      isSecretName(name) &&
      isPossibleSecret(value) &&
      !(AMBIGUOUS_NAME_PATTERN.test(name) && PLAIN_WORDS_PATTERN.test(value))
    )
      return [value];
    return KEY_PATTERNS.flatMap((pattern) => value.match(pattern) ?? []);
  });
}

/** Decodes percent encoding. Returns `text` unchanged if its encoding is invalid. */
export function decodeUri(text: string): string {
  return attempt(() => decodeURIComponent(text), text);
}

/** Whether a value is not a path, an address, or a short or plain word. */
function isPossibleSecret(value: string): boolean {
  if (value.length < 8 || /^([~.]{0,2}\/|[a-z]:\\|[a-z][a-z0-9+.-]*:\/\/)/i.test(value)) return false;
  return value.length >= 16 || /\d/.test(value) || /[^A-Za-z]/.test(value) || !/^[A-Z]?[a-z]+$|^[A-Z]+$/.test(value);
}
