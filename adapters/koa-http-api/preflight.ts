import type { Context } from "koa";
import type { ApiParts } from "./api.js";
import { allowed, METHODS } from "./cors.js";

/** Headers that are allowed only for preflights that request them: the default lists stay unchanged. */
const MORE_HEADERS = ["Idempotency-Key", "Last-Event-ID"];

/** Additional headers of a preflight response, if the browser requests more than the common lists allow. */
export function preflightHeaders(ctx: Context, { options, authHeaderNames }: ApiParts): Record<string, string> {
  const requestedHeaders = ctx
    .get("Access-Control-Request-Headers")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  const isRequested = (name: string): boolean => requestedHeaders.includes(name.toLowerCase());
  const common = allowed(options).toLowerCase().split(", ");
  // The browser already knows the name of a required header; only the value is secret.
  const extraHeaders = [
    ...(MORE_HEADERS.some(isRequested) ? MORE_HEADERS : []),
    ...authHeaderNames.filter((name) => isRequested(name) && !common.includes(name.toLowerCase())),
  ];
  return {
    ...(ctx.get("Access-Control-Request-Method") === "PATCH"
      ? { "Access-Control-Allow-Methods": METHODS.replace("DELETE", "PATCH, DELETE") }
      : {}),
    ...(extraHeaders.length > 0 ? { "Access-Control-Allow-Headers": allowed(options, extraHeaders) } : {}),
  };
}
