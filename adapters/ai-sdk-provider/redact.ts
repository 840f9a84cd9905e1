/** What keys usually look like, whoever made them. */
const PATTERNS: readonly RegExp[] = [
  /\b(sk|pk|rk|gsk|xai|nvapi|hf|r8|csk|pplx|fw|tgp|ghp|gho|ghs|github_pat|glpat|xox[abp]|AKIA|ASIA)[-_][A-Za-z0-9_-]{12,}/g,
  /\bAIza[A-Za-z0-9_-]{20,}/g,
  /\b(AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]+)?/g,
  /(?<=\bBearer\s+)[^\s"',;]{6,}/gi,
  /(?<=[?&](?:key|api_key|token|access_token)=)[^\s&"']+/gi,
];

/** Values shorter than this are words, not secrets. */
const SHORTEST = 6;

/** A function that takes the given secrets, and whatever looks like one, out of a text, and folds control characters. */
export function redactor(secrets: readonly (string | undefined)[]): (text: string) => string {
  const known = new Set<string>();
  for (const secret of secrets) {
    if (secret === undefined) continue;
    for (const form of [secret, secret.replace(/^(Bearer|Basic|Token)\s+/i, "")]) {
      if (form.length < SHORTEST) continue;
      known.add(form);
      known.add(encodeURIComponent(form));
      known.add(JSON.stringify(form).slice(1, -1));
    }
  }
  // The longest first, so that a secret within another one leaves no rest.
  const ordered = [...known].sort((a, b) => b.length - a.length);
  return (text) => {
    let clean = text;
    for (const secret of ordered) clean = clean.replaceAll(secret, "[redacted]");
    for (const pattern of PATTERNS) clean = clean.replace(pattern, "[redacted]");
    // A provider's words end up in logs and event streams, where a line break would start a new entry.
    // eslint-disable-next-line no-control-regex
    return clean.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim();
  };
}
