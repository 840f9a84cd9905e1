import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import { formatAllowedHeaders, ALLOWED_METHODS } from "./headers.js";

/** Headers that are allowed only for preflights that request them; the common headers do not list them. */
const EXTRA_HEADERS = ["Idempotency-Key", "Last-Event-ID"];

/** Additional headers of a preflight response, if the browser requests more than the common lists allow. */
export function createPreflightHeaders(
  ctx: Context,
  { options, authHeaderNames }: ApiDependencies,
): Record<string, string> {
  const requestedHeaders = ctx
    .get("Access-Control-Request-Headers")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  const isRequested = (name: string): boolean => requestedHeaders.includes(name.toLowerCase());
  const commonNames = formatAllowedHeaders(options).toLowerCase().split(", ");
  // The browser already knows the name of a required header; only the value is secret.
  const extraHeaders = [
    ...(EXTRA_HEADERS.some(isRequested) ? EXTRA_HEADERS : []),
    ...authHeaderNames.filter((name) => isRequested(name) && !commonNames.includes(name.toLowerCase())),
  ];
  return {
    ...(ctx.get("Access-Control-Request-Method") === "PATCH"
      ? { "Access-Control-Allow-Methods": ALLOWED_METHODS.replace("DELETE", "PATCH, DELETE") }
      : {}),
    ...(extraHeaders.length > 0 ? { "Access-Control-Allow-Headers": formatAllowedHeaders(options, extraHeaders) } : {}),
  };
}
