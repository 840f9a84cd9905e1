import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type {
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { createFolder, isRecord } from "gantry/plugin";

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

  /** Replaces the login as a whole. Rejects with the system's error. */
  async write(login: Omit<StoredLogin, "url">): Promise<void> {
    const storedLogin: StoredLogin = { url: this.#url, ...login };
    this.#reportSecrets(storedLogin);
    createFolder(dirname(this.#path));
    const temporaryPath = `${this.#path}.${randomUUID()}`;
    try {
      await writeFile(temporaryPath, `${JSON.stringify(storedLogin, null, 2)}\n`, { mode: 0o600, flag: "wx" });
      await rename(temporaryPath, this.#path);
    } finally {
      await rm(temporaryPath, { force: true });
    }
  }

  #reportSecrets({ tokens, client }: StoredLogin): void {
    for (const secret of [tokens.access_token, tokens.refresh_token, tokens.id_token, client.client_secret])
      if (typeof secret === "string" && secret !== "") this.#onSecret(secret);
  }
}
