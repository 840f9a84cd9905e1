import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DemoInMemoryAuthProvider } from "@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js";
import { InvalidGrantError, InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import {
  mcpAuthMetadataRouter,
  mcpAuthRouter,
  createOAuthMetadata,
} from "@modelcontextprotocol/sdk/server/auth/router.js";
import type { AuthInfo } from "@modelcontextprotocol/sdk/server/auth/types.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { OAuthClientInformationFull, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import type { Hooks } from "./temp-dir.js";

/** The SDK's provider, with refresh tokens that are valid once, and with tokens that a test ends. */
class TestAuthProvider extends DemoInMemoryAuthProvider {
  readonly issued: OAuthTokens[] = [];
  readonly #validRefreshTokens = new Set<string>();
  readonly #endedTokens = new Set<string>();
  readonly #resources = new Map<string, AuthInfo>();
  /** Refresh requests: accepted ones and rejected ones. */
  refreshes = { accepted: 0, rejected: 0 };
  /** Number of requests to the MCP server with an ended or unknown token. */
  rejectedRequests = 0;
  /** A refresh waits for this function. */
  beforeRefresh: () => Promise<unknown> = () => Promise.resolve();

  override async exchangeAuthorizationCode(...args: Parameters<DemoInMemoryAuthProvider["exchangeAuthorizationCode"]>) {
    const tokens = await super.exchangeAuthorizationCode(...args);
    this.#resources.set(tokens.access_token, await super.verifyAccessToken(tokens.access_token));
    return this.#issue(tokens);
  }

  override async exchangeRefreshToken(_client: OAuthClientInformationFull, refreshToken: string): Promise<OAuthTokens> {
    await this.beforeRefresh();
    const isValid = this.#validRefreshTokens.delete(refreshToken);
    this.refreshes[isValid ? "accepted" : "rejected"] += 1;
    if (!isValid) throw new InvalidGrantError(`the refresh token ${refreshToken} is not valid`);
    const previousToken = this.issued.find(({ refresh_token }) => refresh_token === refreshToken)!.access_token;
    const access_token = randomUUID();
    this.#resources.set(access_token, { ...this.#resources.get(previousToken)!, token: access_token });
    return this.#issue({ access_token, token_type: "bearer", expires_in: 3_600 });
  }

  override verifyAccessToken(token: string): Promise<AuthInfo> {
    const info = this.#resources.get(token);
    if (info && !this.#endedTokens.has(token)) return Promise.resolve(info);
    this.rejectedRequests += 1;
    throw new InvalidTokenError(`the token ${token} is not valid`);
  }

  endAccessTokens(): void {
    for (const { access_token } of this.issued) this.#endedTokens.add(access_token);
  }

  endRefreshTokens(): void {
    this.#validRefreshTokens.clear();
  }

  #issue(tokens: OAuthTokens): OAuthTokens {
    const result = { ...tokens, refresh_token: randomUUID() };
    this.#validRefreshTokens.add(result.refresh_token);
    this.issued.push(result);
    return result;
  }
}

export interface OAuthMcpServer {
  readonly url: string;
  readonly provider: TestAuthProvider;
  /** Header lines of all requests to the authorization server. */
  readonly authorizationHeaders: string[];
  /** All tokens, codes and secrets that the authorization server has issued. */
  readonly secrets: () => string[];
}

/**
 * Starts an MCP server that needs a login, and its authorization server at another address: the SDK's own, with
 * discovery, dynamic client registration, PKCE and refresh tokens. Its only tool, `whoami`, returns the `Authorization`
 * header of its call. Both are stopped after the test.
 */
export async function startOAuthMcpServer(hooks: Hooks): Promise<OAuthMcpServer> {
  const [authorizationApp, mcpApp] = [createMcpExpressApp(), createMcpExpressApp()];
  const [issuerUrl, mcpUrl] = [
    new URL(await listen(hooks, createServer(authorizationApp))),
    new URL("/mcp", await listen(hooks, createServer(mcpApp))),
  ];
  const provider = new TestAuthProvider((resource) => resource?.href === mcpUrl.href);
  const authorizationHeaders: string[] = [];
  authorizationApp.use((request, _response, next) => {
    authorizationHeaders.push(...request.rawHeaders);
    next();
  });
  authorizationApp.use(mcpAuthRouter({ provider, issuerUrl, scopesSupported: ["mcp:tools"] }));
  const oauthMetadata = createOAuthMetadata({ provider, issuerUrl, scopesSupported: ["mcp:tools"] });
  mcpApp.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: mcpUrl, scopesSupported: ["mcp:tools"] }));
  const resourceMetadataUrl = new URL("/.well-known/oauth-protected-resource/mcp", mcpUrl).href;
  mcpApp.use("/mcp", requireBearerAuth({ verifier: provider, resourceMetadataUrl }));
  mcpApp.post("/mcp", async (request, response) => {
    const server = new McpServer({ name: "office", version: "1" });
    server.registerTool("whoami", {}, () => ({
      content: [{ type: "text", text: String(request.headers.authorization) }],
    }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport as Parameters<typeof server.connect>[0]);
    await transport.handleRequest(request, response, request.body);
  });
  mcpApp.use("/mcp", (_request, response) => void response.status(405).end());
  return {
    url: mcpUrl.href,
    provider,
    authorizationHeaders,
    secrets: () => provider.issued.flatMap((tokens) => [tokens.access_token, tokens.refresh_token ?? ""]),
  };
}

async function listen(hooks: Hooks, server: Server): Promise<string> {
  hooks.after(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
