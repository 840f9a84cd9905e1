import type { Agent } from "gantry";
import { isLoopback } from "gantry/http";
import type { McpLoginErrorCode, McpServerManager } from "gantry/plugin";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { type BodyReader, Fields } from "./body.js";
import { HttpError } from "./errors.js";
import { MCP_CALLBACK_PATH } from "./mcp-callback-path.js";
import { McpLoginRequest } from "./mcp-shapes.js";
import { requirePerson } from "./person.js";
import type { McpLogin, McpLogout, McpServerList } from "./shapes.js";

const STATUS_BY_CODE: Readonly<Record<McpLoginErrorCode, number>> = {
  mcp_server_not_found: 404,
  login_not_possible: 409,
  login_expired: 400,
  login_failed: 502,
};

/** `GET /api/mcp-servers`. */
export async function listMcpServers(ctx: Context, { mcpServerFactory }: Agent): Promise<void> {
  const manager = await mcpServerFactory?.manager?.();
  const servers = (await manager?.list()) ?? [];
  sendJson<typeof McpServerList>(ctx, {
    servers: servers.map(({ toolCount, ...server }) => ({ ...server, tools: toolCount ?? null })),
  });
}

/** `POST /api/mcp-servers/{id}/login`. The id is the name of the server. */
export async function beginMcpLogin(
  ctx: Context,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
): Promise<void> {
  requirePerson(ctx, dependencies);
  const fields = new Fields(McpLoginRequest, await bodyReader.readJson(ctx));
  const redirectUrl = toRedirectUrl(fields.getText("server_url") ?? `http://${ctx.host}`);
  const manager = await requireManager(dependencies.agent);
  const url = await withStatus(manager.beginLogin(readName(ctx), redirectUrl));
  sendJson<typeof McpLogin>(ctx, { authorization_url: url ?? null });
}

/** `POST /api/mcp-servers/{id}/logout`. */
export async function logOutOfMcpServer(ctx: Context, dependencies: ApiDependencies): Promise<void> {
  requirePerson(ctx, dependencies);
  const manager = await requireManager(dependencies.agent);
  const hasLoggedOut = await withStatus(manager.logOut(readName(ctx)));
  sendJson<typeof McpLogout>(ctx, { status: hasLoggedOut ? "logged_out" : "no_login" });
}

/**
 * The redirect of an authorization server, opened by the person's browser. Any page can send a browser here: the
 * request carries no proof of a person, and the secret `state` of a login that a person began is required instead.
 */
export async function finishMcpLogin(ctx: Context, { agent }: ApiDependencies): Promise<void> {
  // A HEAD request, such as that of a link preview, must not use up the login.
  if (ctx.method !== "GET") throw new HttpError(405, "method not allowed", { Allow: "GET" });
  ctx.set({ "Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "no-referrer" });
  try {
    const manager = await requireManager(agent);
    const name = await withStatus(manager.finishLogin(new URLSearchParams(ctx.querystring)));
    sendText(ctx, 200, `Logged in to ${name}. Close this page and return to gantry.`);
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    sendText(ctx, error.status, `The login failed. ${error.message}`);
  }
}

/** Answers the person's browser. Plain text, because the message can contain text of an authorization server. */
function sendText(ctx: Context, status: number, text: string): void {
  ctx.status = status;
  ctx.type = "text/plain; charset=utf-8";
  ctx.body = `${text}\n`;
}

/**
 * The address of the callback. OAuth 2.1 allows http for loopback addresses only. Throws `HttpError` for another
 * address.
 */
function toRedirectUrl(serverUrl: string): string {
  const url = URL.canParse(serverUrl) ? new URL(serverUrl) : undefined;
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url.hostname));
  if (!url || !isSafe || url.username !== "" || url.search !== "" || url.hash !== "")
    throw new HttpError(
      400,
      "invalid field: server_url: expected an address with https, or with http on this machine, to which an authorization server may redirect; open gantry by such an address, or run gantry mcp login",
      {},
      "invalid_field",
    );
  return url.origin + url.pathname.replace(/\/$/, "") + MCP_CALLBACK_PATH;
}

async function requireManager({ mcpServerFactory }: Agent): Promise<McpServerManager> {
  const manager = await mcpServerFactory?.manager?.();
  if (manager) return manager;
  throw new HttpError(404, "no MCP server of the config has this name", {}, "mcp_server_not_found");
}

const readName = (ctx: Context): string => (ctx["params"] as { id?: string }).id ?? "";

/** Rejects with `HttpError` for errors of a login. */
async function withStatus<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { code = "", message } = error as { code?: string; message: string };
    const status = STATUS_BY_CODE[code as McpLoginErrorCode] as number | undefined;
    throw status === undefined ? error : new HttpError(status, message, {}, code);
  }
}
