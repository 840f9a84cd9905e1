import { validateHeaderName } from "node:http";
import { isRecord } from "../base/json.js";

/** What is wrong with a map of headers: the rest of the key's path, and what was expected there. */
export interface HeaderFault {
  key: string;
  expected: string;
}

// Line breaks would let a value become a header of its own.
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;
// eslint-disable-next-line no-control-regex
const BEYOND_LATIN1 = /[^\u0000-\u00ff]/;

/** Whether a value is an object of headers that can be sent; `sent`: by this server. */
export function headerFaultIn(value: unknown, sent: boolean): HeaderFault | undefined {
  if (!isRecord(value)) return { key: "", expected: "an object of header names and values" };
  for (const [name, text] of Object.entries(value)) {
    if (name === "__proto__" || !isHeaderName(name))
      return { key: `.${JSON.stringify(name)}`, expected: "a header name" };
    if (typeof text !== "string") return { key: `.${name}`, expected: "a string" };
    if (CONTROL.test(text) || (sent && BEYOND_LATIN1.test(text)))
      return { key: `.${name}`, expected: sent ? "one line of Latin-1 text" : "one line of text" };
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
