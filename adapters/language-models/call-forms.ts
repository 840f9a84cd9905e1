import { createHash } from "node:crypto";
import { isRecord, parseJson } from "gantry/plugin";

// Stored calls keep ids, names and arguments as the model wrote them. A provider rejects the whole history in every
// later request if one of them has an invalid form.

const MAX_NAME_CHARACTERS = 64;
/** Limits the work for a very long invalid name. */
const MAX_SCANNED_CHARACTERS = 1000;

/** Form of tool call ids. `plain`: 1 to 40 letters, digits, `_` and `-`; `short`: nine letters or digits. */
export type IdForm = "any" | "plain" | "short";

/** Tool names have 1 to 64 letters, digits, `_` and `-`. `letter`: the first character is a letter or `_`. */
export type NameForm = "plain" | "letter";

/**
 * Returns a function that converts ids without this form, such as ids of other providers. Equal ids give equal results.
 */
export function createIdConverter(form: IdForm): (id: string) => string {
  if (form === "any") return (id) => id;
  const validPattern = form === "plain" ? /^[A-Za-z0-9_-]{1,40}$/ : /^[A-Za-z0-9]{9}$/;
  const convertedIds = new Map<string, string>();
  return (id) => {
    if (validPattern.test(id)) return id;
    let convertedId = convertedIds.get(id);
    if (convertedId === undefined) {
      convertedId = createHash("sha256")
        .update(id)
        .digest("hex")
        // With the prefix `call_` the id fits the 40 characters of `plain`.
        .slice(0, form === "plain" ? 24 : 9);
      if (form === "plain") convertedId = `call_${convertedId}`;
      convertedIds.set(id, convertedId);
    }
    return convertedId;
  };
}

/** Returns a function that converts invalid tool names to this form. Equal names give equal results. */
export function createNameConverter(form: NameForm): (name: string) => string {
  const validPattern = form === "plain" ? /^[A-Za-z0-9_-]{1,64}$/ : /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
  return (name) => {
    if (validPattern.test(name)) return name;
    // A call with an invalid name fails; its result quotes the name and lists the valid names.
    const sanitizedName = name.slice(0, MAX_SCANNED_CHARACTERS).replace(/[^A-Za-z0-9_-]+/g, "_");
    return (/^[A-Za-z_]/.test(sanitizedName) ? sanitizedName : `_${sanitizedName}`).slice(0, MAX_NAME_CHARACTERS);
  };
}

/**
 * The arguments of a call as an object; `{ invalid_arguments: text }` for any other or deeply nested value, because
 * providers reject a history with such arguments.
 */
export function parseArguments(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  try {
    const value = parseJson(text);
    if (isRecord(value)) return value;
  } catch {
    // The result of this call already names the error for the model.
  }
  return { invalid_arguments: text };
}
