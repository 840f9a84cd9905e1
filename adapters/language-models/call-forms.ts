import { createHash } from "node:crypto";
import { isRecord, parseJson } from "gantry/plugin";

// What a model says of a call is kept as it was said. A provider refuses the whole history, with each further question,
// for one id, name or argument that is not of the form that it takes.

/** Ids of calls: any, letters and digits with `_` and `-`, or nine letters and digits. */
export type IdForm = "any" | "plain" | "short";

/** Names of tools: how they may begin. All are 1 to 64 letters, digits, `_` and `-`. */
export type NameForm = "plain" | "letter";

/** Ids of another provider in a form that this one takes; the same id always becomes the same. */
export function toolIds(form: IdForm): (id: string) => string {
  if (form === "any") return (id) => id;
  const fits = form === "plain" ? /^[A-Za-z0-9_-]{1,40}$/ : /^[A-Za-z0-9]{9}$/;
  const known = new Map<string, string>();
  return (id) => {
    if (fits.test(id)) return id;
    let short = known.get(id);
    if (short === undefined) {
      short = createHash("sha256")
        .update(id)
        .digest("hex")
        .slice(0, form === "plain" ? 24 : 9);
      if (form === "plain") short = `call_${short}`;
      known.set(id, short);
    }
    return short;
  };
}

/** Names that a model made up in a form that this provider takes; the same name always becomes the same. */
export function toolNames(form: NameForm): (name: string) => string {
  const fits = form === "plain" ? /^[A-Za-z0-9_-]{1,64}$/ : /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
  return (name) => {
    if (fits.test(name)) return name;
    // The result of such a call quotes the name, and says which there are.
    const plain = name.slice(0, 1000).replace(/[^A-Za-z0-9_-]+/g, "_");
    return (/^[A-Za-z_]/.test(plain) ? plain : `_${plain}`).slice(0, 64);
  };
}

/** What the model sent, as an object: providers refuse a history whose arguments are anything else, or nested without end. */
export function argumentsOf(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  try {
    const value = parseJson(text);
    if (isRecord(value)) return value;
  } catch {
    // The result of this call already tells the model what was wrong.
  }
  return { invalid_arguments: text };
}
