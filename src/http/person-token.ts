import { createHash, timingSafeEqual } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { newId, randomBytes } from "../base/ids.js";

/** Name of the token file in gantry's home. */
export const TOKEN_FILE_NAME = "token";
/** Bytes of a token before base64url encoding. */
const TOKEN_BYTES = 32;

/** The token that proves that the user sent a request. Sandboxed commands cannot read gantry's home. */
export class PersonToken {
  readonly value: string;

  /** Reads the token file in `folder`, or creates the file. Throws the system's error. */
  constructor(folder: string) {
    const file = join(folder, TOKEN_FILE_NAME);
    this.value = readToken(file) ?? createToken(file);
  }

  /** Whether the request carries `Authorization: Bearer` with the token. */
  isSentIn({ headers: { authorization = "" } }: IncomingMessage): boolean {
    const [, token = ""] = /^Bearer +(\S+)$/i.exec(authorization.trim()) ?? [];
    return timingSafeEqual(digest(token), digest(this.value));
  }
}

/**
 * Creates the token file and returns the token. If several servers with one home create the file at the same time, the
 * first file that is linked wins, and all servers use the token in that file.
 */
function createToken(file: string): string {
  const temporaryFile = `${file}.${newId()}`;
  writeFileSync(temporaryFile, Buffer.from(randomBytes(TOKEN_BYTES)).toString("base64url"), {
    mode: 0o600,
    flag: "wx",
  });
  try {
    linkSync(temporaryFile, file);
  } catch {
    // Another server was first, the file contains no token, or the file system has no hard links.
    if (readToken(file) === undefined) renameSync(temporaryFile, file);
  } finally {
    rmSync(temporaryFile, { force: true });
  }
  const token = readToken(file);
  if (token === undefined) throw new Error(`${file} holds no token`);
  return token;
}

/** Returns undefined if the file does not exist or contains no token. Throws other errors of the system. */
function readToken(file: string): string | undefined {
  try {
    const text = readFileSync(file, "utf8").trim();
    return text.length >= TOKEN_BYTES ? text : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

const digest = (text: string) => createHash("sha256").update(text).digest();
