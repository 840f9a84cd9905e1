import { Redactor } from "gantry/plugin";

// Provider messages go to logs and event streams, where a line break would start a new entry.
// eslint-disable-next-line no-control-regex
const CONTROL_CHARACTERS_PATTERN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/**
 * Returns a function that removes these secrets, and texts that look like secrets, and replaces control characters by
 * spaces.
 */
export function createRedactor(secrets: readonly (string | undefined)[]): (text: string) => string {
  const secretRedactor = new Redactor(secrets.filter((secret) => secret !== undefined));
  return (text) => secretRedactor.redact(text).replace(CONTROL_CHARACTERS_PATTERN, " ").trim();
}
