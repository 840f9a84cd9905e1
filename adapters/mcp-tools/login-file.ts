import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type {
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { createFolder, isRecord, ProcessLock } from "gantry/plugin";

/** Interval at which a process tries to take the lock, and maximum wait: longer than a refresh, which is limited. */
const LOCK_INTERVAL_MS = 50;
const LOCK_TIMEOUT_MS = 60_000;

/** The login to one server, as stored. */
export interface StoredLogin {
  /** Address of the MCP server. The tokens are sent to no other address. */
  readonly url: string;
  readonly tokens: StoredOAuthTokens;
  /** The registration of gantry at the authorization server. */
  readonly client: StoredOAuthClientInformation;
  readonly discovery: OAuthDiscoveryState;
  /** Resource indicator (RFC 8707) of the server. Undefined if the server has no metadata. */
  readonly resource?: string | undefined;
}

/** The file with the login to one server. Its mode is 0600. */
export class LoginFile {
  readonly #path: string;
  readonly #url: string;
  readonly #onSecret: (secret: string) => void;
  /** Version of the file when the server last required a login. */
  #refusedVersion: string | undefined;

  /** `onSecret` is called for each secret that is read or written. */
  constructor(path: string, url: string, onSecret: (secret: string) => void) {
    this.#path = path;
    this.#url = url;
    this.#onSecret = onSecret;
  }

  /** Returns the login; undefined if there is none for this address. */
  async read(): Promise<StoredLogin | undefined> {
    try {
      const login: unknown = JSON.parse(await readFile(this.#path, "utf8"));
      if (!isRecord(login) || login["url"] !== this.#url || !isRecord(login["tokens"])) return undefined;
      this.#reportSecrets(login as unknown as StoredLogin);
      return login as unknown as StoredLogin;
    } catch {
      return undefined;
    }
  }

  /** Version of the file, which each login and each refresh changes; `""` without a login. */
  async version(): Promise<string> {
    const stats = await stat(this.#path, { bigint: true }).catch(() => undefined);
    return stats ? `${stats.ino} ${stats.mtimeNs}` : "";
  }

  /** Whether the server requires a new login. False again when the file changes. */
  async isRefused(): Promise<boolean> {
    return this.#refusedVersion !== undefined && this.#refusedVersion === (await this.version());
  }

  /** Records that the server requires a new login. */
  async recordRefusal(): Promise<void> {
    this.#refusedVersion = await this.version();
  }

  /**
   * Calls `work` while no other process and no other connection does so. Two refreshes with one refresh token would end
   * the login. Rejects with the error of `work`, or with an error of the lock.
   */
  async withLock<T>(work: () => Promise<T>): Promise<T> {
    const deadlineMs = performance.now() + LOCK_TIMEOUT_MS;
    const lock = await ProcessLock.acquire(`${this.#path}.lock`, async ({ pid }) => {
      if (performance.now() > deadlineMs) throw new Error(`the process ${pid} is still refreshing it`);
      await sleep(LOCK_INTERVAL_MS);
    });
    try {
      return await work();
    } finally {
      lock.release();
    }
  }

  /** Replaces the login as a whole, on disk too. Rejects with the system's error. */
  async write(login: Omit<StoredLogin, "url">): Promise<void> {
    const storedLogin: StoredLogin = { url: this.#url, ...login };
    this.#reportSecrets(storedLogin);
    createFolder(dirname(this.#path));
    const temporaryPath = `${this.#path}.${randomUUID()}`;
    try {
      const text = `${JSON.stringify(storedLogin, null, 2)}\n`;
      await writeFile(temporaryPath, text, { mode: 0o600, flag: "wx", flush: true });
      await rename(temporaryPath, this.#path);
      await syncFolder(dirname(this.#path));
    } finally {
      await rm(temporaryPath, { force: true });
    }
  }

  /** Deletes the login. The server then requires a new one. Resolves with false if there is none. */
  async delete(): Promise<boolean> {
    const hasLogin = (await this.read()) !== undefined;
    await rm(this.#path, { force: true });
    if (hasLogin) await this.recordRefusal();
    return hasLogin;
  }

  #reportSecrets({ tokens, client }: StoredLogin): void {
    for (const secret of [tokens.access_token, tokens.refresh_token, tokens.id_token, client.client_secret])
      if (typeof secret === "string" && secret !== "") this.#onSecret(secret);
  }
}

/** Syncs a rename in a folder to disk. Some systems do not support it; the error is ignored. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path).catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
