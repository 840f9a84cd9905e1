import { createHash } from "node:crypto";

/** Maximum characters of a tool name: the limit of the strictest provider. */
const MAX_NAME_CHARACTERS = 64;
/** Maximum characters of the server's part of a tool name. */
const MAX_SERVER_CHARACTERS = 32;

/**
 * Returns the server's key in tool names and rules: the name if all its characters are permitted. Otherwise the
 * permitted characters, with a hash of the name.
 *
 * Different names have different keys. A key never ends in `__`, which separates the key from the tool's name.
 */
export function toServerKey(name: string): string {
  const cleanedName = name
    .replace(/[^A-Za-z0-9-]+/g, "_")
    .slice(0, MAX_SERVER_CHARACTERS)
    .replace(/^_+|_+$/g, "");
  return cleanedName === name ? name : [cleanedName, shortHash(name)].filter((part) => part !== "").join("_");
}

/**
 * Returns `server__tool`, the name for models. If the server's tool name has other characters or is too long, a hash of
 * the tool name is appended.
 */
export function toToolName(key: string, name: string): string {
  const fullName = `${key}__${name.replace(/[^A-Za-z0-9_-]+/g, "_")}`;
  if (fullName === `${key}__${name}` && fullName.length <= MAX_NAME_CHARACTERS) return fullName;
  const suffix = `_${shortHash(name)}`;
  return fullName.slice(0, MAX_NAME_CHARACTERS - suffix.length) + suffix;
}

/**
 * Returns `mcp:server/tool`, the name for rules. Contains the server's unchanged tool name, so that rules do not depend
 * on the name for models.
 */
export function originOf(key: string, name: string): string {
  return `mcp:${key}/${name}`;
}

/** Returns `server:prompt`, the name that users type. */
export function toPromptName(key: string, name: string): string {
  const cleanedName = name.replace(/[^\p{L}\p{N}_.-]+/gu, "_").slice(0, MAX_NAME_CHARACTERS);
  return `${key}:${cleanedName === name ? name : `${cleanedName}_${shortHash(name)}`}`;
}

/** Whether a name matches a glob of `*` and `?`. */
export function matchesGlob(glob: string, name: string): boolean {
  let [globIndex, starIndex, retryIndex] = [0, -1, 0];
  for (let i = 0; i < name.length;) {
    if (glob[globIndex] === "*") [starIndex, retryIndex] = [globIndex++, i];
    else if (glob[globIndex] === "?" || glob[globIndex] === name[i]) [globIndex, i] = [globIndex + 1, i + 1];
    else if (starIndex >= 0) [globIndex, i] = [starIndex + 1, ++retryIndex];
    else return false;
  }
  while (glob[globIndex] === "*") globIndex += 1;
  return globIndex === glob.length;
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}
