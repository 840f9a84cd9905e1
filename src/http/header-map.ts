import { validateHeaderName } from "node:http";
import { isRecord } from "../base/json.js";

/** An invalid entry of an object of headers. */
export interface InvalidHeader {
  /** End of the entry's path in the config, for example `.Cookie`; empty for the whole object. */
  key: string;
  /** Description of a valid value, for an error message. */
  expected: string;
}

// A value with line breaks could inject another header.
// eslint-disable-next-line no-control-regex
const CONTROL_CHARACTER = /[\u0000-\u0008\u000a-\u001f\u007f]/;
// eslint-disable-next-line no-control-regex
const NON_LATIN1_CHARACTER = /[^\u0000-\u00ff]/;

/**
 * Finds the first invalid entry of an object of headers; undefined if all entries are valid. Values of headers that
 * this server sends must be Latin-1.
 */
export function findInvalidHeader(value: unknown, isSentByServer: boolean): InvalidHeader | undefined {
  if (!isRecord(value)) return { key: "", expected: "an object of header names and values" };
  for (const [name, text] of Object.entries(value)) {
    if (name === "__proto__" || !isHeaderName(name))
      return { key: `.${JSON.stringify(name)}`, expected: "a header name" };
    if (typeof text !== "string") return { key: `.${name}`, expected: "a string" };
    if (CONTROL_CHARACTER.test(text) || (isSentByServer && NON_LATIN1_CHARACTER.test(text)))
      return { key: `.${name}`, expected: isSentByServer ? "one line of Latin-1 text" : "one line of text" };
  }
  return undefined;
}

function isHeaderName(name: string): boolean {
  try {
    validateHeaderName(name);
    return true;
  } catch {
    return false;
  }
}
