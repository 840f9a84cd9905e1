import { createHash } from "node:crypto";

/** No provider takes longer names of tools. */
const LONGEST = 64;
/** A server's share of them. */
const SERVER = 32;

/**
 * What stands for a server in names of tools and in rules: its own name where that may stand there, else what is left of it
 * with a hash of the whole. Distinct names have distinct ones, and none has the `__` that ends it in a tool's name.
 */
export function serverKey(name: string): string {
  const plain = name
    .replace(/[^A-Za-z0-9-]+/g, "_")
    .slice(0, SERVER)
    .replace(/^_+|_+$/g, "");
  return plain === name ? name : [plain, hash(name)].filter((part) => part !== "").join("_");
}

/** `server__tool`, as models call it: as the server calls it where that may be, else with a hash of that name. */
export function toolName(key: string, name: string): string {
  const plain = `${key}__${name.replace(/[^A-Za-z0-9_-]+/g, "_")}`;
  if (plain === `${key}__${name}` && plain.length <= LONGEST) return plain;
  const end = `_${hash(name)}`;
  return plain.slice(0, LONGEST - end.length) + end;
}

/** `mcp:server/tool`, as rules call it: the server's own name of the tool, whatever models see, so that no rule misses it. */
export function originOf(key: string, name: string): string {
  return `mcp:${key}/${name}`;
}

/** `server:prompt`, as people type it. */
export function promptName(key: string, name: string): string {
  const plain = name.replace(/[^\p{L}\p{N}_.-]+/gu, "_").slice(0, LONGEST);
  return `${key}:${plain === name ? name : `${plain}_${hash(name)}`}`;
}

/** Whether a name fits a glob of `*` and `?`. */
export function fitsGlob(glob: string, name: string): boolean {
  let [at, star, from] = [0, -1, 0];
  for (let i = 0; i < name.length;) {
    if (glob[at] === "*") [star, from] = [at++, i];
    else if (glob[at] === "?" || glob[at] === name[i]) [at, i] = [at + 1, i + 1];
    else if (star >= 0) [at, i] = [star + 1, ++from];
    else return false;
  }
  while (glob[at] === "*") at += 1;
  return at === glob.length;
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}
