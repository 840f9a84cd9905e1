import { Redactor } from "gantry/plugin";

// A provider's words end up in logs and event streams, where a line break would start a new entry.
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** A function that takes the given secrets, and whatever looks like one, out of a text, and folds control characters. */
export function redactor(secrets: readonly (string | undefined)[]): (text: string) => string {
  const known = new Redactor(secrets.filter((secret) => secret !== undefined));
  return (text) => known.redact(text).replace(CONTROL, " ").trim();
}
