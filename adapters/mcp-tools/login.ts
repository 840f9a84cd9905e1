import { randomBytes } from "node:crypto";
import {
  auth,
  extractWWWAuthenticateParams,
  OAuthError,
  OAuthErrorCode,
  refreshAuthorization,
  type AuthProvider,
  type FetchLike,
  type OAuthClientProvider,
} from "@modelcontextprotocol/client";
import { BoundedHttpClient } from "./http-bodies.js";
import { getSentAuthorization } from "./http-transport.js";
import type { LoginFile, StoredLogin } from "./login-file.js";
import { toLine } from "./printable-text.js";

type UnauthorizedContext = Parameters<NonNullable<AuthProvider["onUnauthorized"]>>[0];

/** Time limit of a request to an authorization server. */
const REQUEST_TIMEOUT_MS = 30_000;
const MAX_REASON_CHARACTERS = 300;
/** Errors after which only a new login helps. */
const FINAL_ERROR_CODES: readonly string[] = [
  OAuthErrorCode.InvalidGrant,
  OAuthErrorCode.InvalidClient,
  OAuthErrorCode.UnauthorizedClient,
];

/** The server has no valid login. The message names the command for it. */
export class LoginRequiredError extends Error {
  constructor(serverName: string) {
    super(`the server needs a login: run "gantry mcp login ${serverName}"`);
  }
}

/** Sends the stored access token, and refreshes it when the server rejects it. */
export class StoredLoginProvider implements AuthProvider {
  readonly #serverName: string;
  readonly #file: LoginFile;

  constructor(serverName: string, file: LoginFile) {
    this.#serverName = serverName;
    this.#file = file;
  }

  /** Reads the file for each request, because another process may have logged in or refreshed the token. */
  async token(): Promise<string | undefined> {
    return (await this.#file.read())?.tokens.access_token;
  }

  async onUnauthorized({ response }: UnauthorizedContext): Promise<void> {
    if (!(await this.#file.read())) await this.#requireLogin();
    await this.#file.withLock(() => this.#refresh(getSentAuthorization(response)));
  }

  /** Refreshes the tokens, unless this was done since the request with `sentAuthorization`. */
  async #refresh(sentAuthorization: string | undefined): Promise<void> {
    const login = (await this.#file.read()) ?? (await this.#requireLogin());
    const { tokens, client, discovery, resource } = login;
    if (sentAuthorization !== `Bearer ${tokens.access_token}`) return;
    if (tokens.refresh_token === undefined) await this.#requireLogin();
    try {
      const newTokens = await withFetch((fetchFn) =>
        refreshAuthorization(discovery.authorizationServerUrl, {
          ...(discovery.authorizationServerMetadata && { metadata: discovery.authorizationServerMetadata }),
          clientInformation: client,
          refreshToken: tokens.refresh_token!,
          ...(resource !== undefined && { resource: new URL(resource) }),
          fetchFn,
        }),
      );
      // A login or a logout since then counts, not this refresh.
      if ((await this.#file.read())?.tokens.access_token === tokens.access_token)
        await this.#file.write({ ...login, tokens: newTokens });
    } catch (error) {
      const newLogin = await this.#file.read();
      if (newLogin && newLogin.tokens.access_token !== tokens.access_token) return;
      if (error instanceof OAuthError && FINAL_ERROR_CODES.includes(error.code)) await this.#requireLogin();
      throw new Error(`the login could not be refreshed: ${toReason(error)}`, { cause: error });
    }
  }

  async #requireLogin(): Promise<never> {
    await this.#file.recordRefusal();
    throw new LoginRequiredError(this.#serverName);
  }
}

/** How a person authorizes gantry. */
export interface LoginOptions {
  /** Address to which the authorization server redirects the person. */
  readonly redirectUrl: string;
  /**
   * Opens an address at the authorization server, in a person's browser. Resolves with the query parameters of the
   * redirect, whose `state` must be that of the address.
   */
  authorize(url: URL): Promise<URLSearchParams>;
}

/** Sends no stored token. Asks a person to log in when the server asks for authorization, and stores the login. */
export class InteractiveLoginProvider implements AuthProvider {
  readonly #file: LoginFile;
  readonly #options: LoginOptions;
  #login: Partial<StoredLogin> = {};

  constructor(file: LoginFile, options: LoginOptions) {
    this.#file = file;
    this.#options = options;
  }

  get hasLoggedIn(): boolean {
    return this.#login.tokens !== undefined;
  }

  token(): Promise<string | undefined> {
    return Promise.resolve(this.#login.tokens?.access_token);
  }

  async onUnauthorized({ response, serverUrl }: UnauthorizedContext): Promise<void> {
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
    const state = randomBytes(24).toString("base64url");
    let authorizationUrl: URL | undefined;
    const provider = this.#createClient(state, (url) => (authorizationUrl = url));
    try {
      await withFetch(async (fetchFn) => {
        const options = {
          ...{ serverUrl, fetchFn },
          ...(resourceMetadataUrl && { resourceMetadataUrl }),
          ...(scope !== undefined && { scope }),
        };
        await auth(provider, options);
        // The server's metadata decide about the address, which a browser opens.
        if (!/^https?:$/.test(authorizationUrl!.protocol))
          throw new Error("the authorization server has no web address");
        const parameters = await this.#options.authorize(authorizationUrl!);
        await auth(provider, { ...options, ...readRedirect(parameters, state) });
      });
      const { tokens, client, discovery, resource } = this.#login;
      await this.#file.write({ tokens: tokens!, client: client!, discovery: discovery!, resource });
    } catch (error) {
      throw new Error(`the login failed: ${toReason(error)}`, { cause: error });
    }
  }

  /** The client of the SDK's flow: discovery, registration, PKCE and the exchange of the code. */
  #createClient(state: string, onAddress: (url: URL) => void): OAuthClientProvider {
    const { redirectUrl } = this.#options;
    const set = (fields: Partial<StoredLogin>) => void (this.#login = { ...this.#login, ...fields });
    let codeVerifier = "";
    return {
      redirectUrl,
      clientMetadata: {
        client_name: "gantry",
        redirect_uris: [redirectUrl],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
      },
      state: () => state,
      clientInformation: () => this.#login.client,
      saveClientInformation: (client) => set({ client }),
      tokens: () => this.#login.tokens,
      saveTokens: (tokens) => set({ tokens }),
      redirectToAuthorization: onAddress,
      saveCodeVerifier: (verifier) => void (codeVerifier = verifier),
      codeVerifier: () => codeVerifier,
      discoveryState: () => this.#login.discovery,
      saveDiscoveryState: (discovery) => set({ discovery }),
      saveResourceUrl: (resource) => set({ resource }),
    };
  }
}

/** Reads the parameters of the redirect. Throws if it has another state or reports an error. */
function readRedirect(parameters: URLSearchParams, state: string): { authorizationCode: string; iss?: string } {
  if (parameters.get("state") !== state) throw new Error("the redirect has another state");
  const [code, iss, error] = ["code", "iss", "error"].map((key) => parameters.get(key));
  if (error) throw new Error([error, parameters.get("error_description")].filter(Boolean).join(": "));
  if (!code) throw new Error("the redirect has no code");
  return { authorizationCode: code, ...(iss && { iss }) };
}

/** Calls a function with the `fetch` for authorization servers, which gets no header of the MCP server. */
async function withFetch<T>(work: (fetchFn: FetchLike) => Promise<T>): Promise<T> {
  const httpClient = new BoundedHttpClient();
  const fetchFn: FetchLike = (url, { body, ...init } = {}) => {
    const text = body === undefined || body === null ? {} : { body: String(body as string | URLSearchParams) };
    return httpClient.fetch(
      url,
      { ...init, ...text, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) },
      () => undefined,
    );
  };
  try {
    return await work(fetchFn);
  } finally {
    await httpClient.close();
  }
}

function toReason(error: unknown): string {
  const { message, cause } = error as { message?: unknown; cause?: { code?: unknown } };
  const code = error instanceof TypeError && typeof cause?.code === "string" ? ` (${cause.code})` : "";
  return toLine(String(message)).slice(0, MAX_REASON_CHARACTERS) + code;
}
