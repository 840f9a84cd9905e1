import { validateHeaderName } from "node:http";
import { isRecord } from "../base/json.js";

/** An invalid entry in a map of headers. `key` is the end of the key's path, `expected` describes a valid value. */
export interface HeaderFault {
  key: string;
  expected: string;
}

// A value with line breaks could inject another header.
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;
// eslint-disable-next-line no-control-regex
const BEYOND_LATIN1 = /[^\u0000-\u00ff]/;

/**
 * Finds the first invalid entry of an object of headers; undefined if all can be sent. `sent`: this server sends the
 * headers itself, so values must be Latin-1.
 */
export function headerFaultIn(value: unknown, isSentHere: boolean): HeaderFault | undefined {
  if (!isRecord(value)) return { key: "", expected: "an object of header names and values" };
  for (const [name, text] of Object.entries(value)) {
    if (name === "__proto__" || !isHeaderName(name))
      return { key: `.${JSON.stringify(name)}`, expected: "a header name" };
    if (typeof text !== "string") return { key: `.${name}`, expected: "a string" };
    if (CONTROL.test(text) || (isSentHere && BEYOND_LATIN1.test(text)))
      return { key: `.${name}`, expected: isSentHere ? "one line of Latin-1 text" : "one line of text" };
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
