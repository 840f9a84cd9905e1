import { createHash } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { randomBytes } from "../base/ids.js";
import { isRecord } from "../base/json.js";
import type { User, UserScope } from "../ports/user.js";

/** Name of the file with the tokens of users, in gantry's home. */
export const USER_TOKENS_FILE_NAME = "tokens.json";
/** All scopes, as they are listed in messages. */
export const USER_SCOPES: readonly UserScope[] = ["read", "run", "approve", "admin"];
/** Name of the user who has the token of gantry's home. No other token can have it. */
export const LOCAL_USER_NAME = "local";

/** Recognized by scanners for secrets, and by people. */
const TOKEN_PREFIX = "gantry_";
const TOKEN_BYTES = 32;
const NAME_PATTERN = /^[a-z0-9][a-z0-9._@-]{0,63}$/i;
const FORMAT_VERSION = 1;

/** The token of a user, as stored. */
export interface UserToken extends User {
  /** SHA-256 of the token, as 64 hexadecimal digits. A token has 256 random bits, so a slow hash would add nothing. */
  readonly hash: string;
  /** Maximum number of requests in one minute. Undefined: no limit. */
  readonly requestsPerMinute?: number | undefined;
  readonly createdAt: string;
  /** ISO 8601 UTC. Undefined: the token does not expire. */
  readonly expiresAt?: string | undefined;
}

/** Creates a token. Only its hash is stored. */
export function createTokenValue(): string {
  return TOKEN_PREFIX + Buffer.from(randomBytes(TOKEN_BYTES)).toString("base64url");
}

export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** Throws an `Error` that states what a name may consist of. */
export function checkUserName(name: string): void {
  if (!NAME_PATTERN.test(name))
    throw new Error(`the name ${JSON.stringify(name)} must be 1 to 64 letters, digits and the characters . _ @ -`);
  if (name === LOCAL_USER_NAME)
    throw new Error(`the name ${LOCAL_USER_NAME} belongs to the token in gantry's home folder`);
}

/** Reads the tokens; none if the file does not exist. Rejects with an `Error` that names the file and the field. */
export async function readTokenFile(file: string): Promise<UserToken[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  try {
    return parseTokens(JSON.parse(text));
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`, { cause: error });
  }
}

/** Replaces the file, so that readers see either the old or the new tokens. Rejects with an `Error` that names the file. */
export async function writeTokenFile(file: string, tokens: readonly UserToken[]): Promise<void> {
  const temporaryFile = `${file}.new`;
  try {
    const text = `${JSON.stringify({ version: FORMAT_VERSION, tokens }, undefined, 2)}\n`;
    // A command that was killed may have left this file. The caller's lock keeps other commands away.
    await rm(temporaryFile, { force: true });
    // `wx` follows no symbolic link.
    await writeFile(temporaryFile, text, { mode: 0o600, flag: "wx" });
    await rename(temporaryFile, file);
  } catch (error) {
    // The error of a full disk names no file.
    throw new Error(`${file} cannot be written and was not changed: ${(error as Error).message}`, { cause: error });
  } finally {
    await rm(temporaryFile, { force: true });
  }
}

function parseTokens(value: unknown): UserToken[] {
  if (!isRecord(value) || value["version"] !== FORMAT_VERSION || !Array.isArray(value["tokens"]))
    throw new Error(`not a file of version ${FORMAT_VERSION} that gantry token has written`);
  const tokens = value["tokens"].map((token, i) => {
    checkToken(token, `tokens[${i}]`);
    return token;
  });
  const names = tokens.map(({ name }) => name);
  const repeatedName = names.find((name, i) => names.indexOf(name) !== i);
  if (repeatedName !== undefined) throw new Error(`two tokens have the name ${repeatedName}`);
  return tokens;
}

function checkToken(token: unknown, field: string): asserts token is UserToken {
  if (!isRecord(token)) throw new Error(`${field} must be an object`);
  const { name, hash, scopes, projectRoots = [], dailyBudget = 0, requestsPerMinute = 1, createdAt, expiresAt } = token;
  const check = (isValid: boolean, key: string, expected: string) => {
    if (!isValid) throw new Error(`${field}.${key} must be ${expected}`);
  };
  check(typeof name === "string", "name", "a text");
  checkUserName(name as string);
  check(typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash), "hash", "64 hexadecimal digits");
  const isScope = (scope: unknown) => USER_SCOPES.includes(scope as UserScope);
  check(Array.isArray(scopes) && scopes.every(isScope), "scopes", `a list of ${USER_SCOPES.join(", ")}`);
  const isFolder = (folder: unknown) => typeof folder === "string" && isAbsolute(folder);
  check(Array.isArray(projectRoots) && projectRoots.every(isFolder), "projectRoots", "a list of absolute paths");
  check(typeof dailyBudget === "number" && dailyBudget >= 0, "dailyBudget", "a number of USD, at least 0");
  check(
    Number.isSafeInteger(requestsPerMinute) && (requestsPerMinute as number) > 0,
    "requestsPerMinute",
    "a whole number, at least 1",
  );
  check(isTimestamp(createdAt), "createdAt", "a time in ISO 8601");
  check(expiresAt === undefined || isTimestamp(expiresAt), "expiresAt", "a time in ISO 8601");
}

function isTimestamp(value: unknown): boolean {
  return typeof value === "string" && !Number.isNaN(Date.parse(value));
}
