// Shapes of the MCP servers.

import * as v from "valibot";
import { count, describe, oneOf, optional, string, text } from "./shape-builders.js";

export const McpServerStatus = v.object({
  name: string,
  transport: oneOf(["stdio", "http"]),
  state: describe(
    oneOf(["idle", "connected", "needs_login", "failed"]),
    "state in this process; `idle`: no session uses the server now",
  ),
  reason: text('why the last connection failed; `""` if it has not failed'),
  tools: describe(v.nullable(count), "number of the offered tools; null until they are listed"),
  login: describe(oneOf(["none", "possible", "stored"]), "`stored`: a person has logged in"),
});
export const McpServerList = v.object({ servers: v.array(McpServerStatus) });
export const McpLoginRequest = v.object({
  server_url: optional(
    text("URL under which the browser reaches this server; https, or http on this machine. Default: the Host header"),
  ),
});
export const McpLogin = v.object({
  authorization_url: describe(
    v.nullable(string),
    "for the person's browser, which returns to this server; null: the server needs no login",
  ),
});
export const McpLogout = v.object({ status: oneOf(["logged_out", "no_login"]) });

/** A configured MCP server. */
export type ApiMcpServer = v.InferOutput<typeof McpServerStatus>;
