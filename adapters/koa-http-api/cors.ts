import type { Context } from "koa";
import type { KoaHttpOptions } from "./options.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";

const METHODS = "GET, POST, PUT, DELETE, OPTIONS";
/** What only those ask for who use it: the lists stay as they were for all others. */
const MORE_HEADERS = ["Idempotency-Key", "Last-Event-ID"];

const allowed = ({ headers }: Pick<KoaHttpOptions, "headers">, more: readonly string[] = []): string =>
  ["Content-Type", "Authorization", ...more, ...Object.keys(headers)].join(", ");

/** Headers of every response, errors included. Configured ones come last and win. */
export function commonHeaders(options: Pick<KoaHttpOptions, "headers">): Readonly<Record<string, string>> {
  const exposed = [SESSION_HEADER, RUN_HEADER, MODEL_HEADER, IGNORED_HEADER, "Retry-After"];
  return {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": METHODS,
    "Access-Control-Allow-Headers": allowed(options),
    "Access-Control-Expose-Headers": exposed.join(", "),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    ...options.headers,
  };
}

/** What a browser's preflight is told beside, when it asks for more than the common lists hold. */
export function preflightHeaders(ctx: Context, options: Pick<KoaHttpOptions, "headers">): Record<string, string> {
  const wanted = ctx.get("Access-Control-Request-Headers").toLowerCase();
  const isWanted = MORE_HEADERS.some((name) => wanted.includes(name.toLowerCase()));
  return {
    ...(ctx.get("Access-Control-Request-Method") === "PATCH"
      ? { "Access-Control-Allow-Methods": METHODS.replace("DELETE", "PATCH, DELETE") }
      : {}),
    ...(isWanted ? { "Access-Control-Allow-Headers": allowed(options, MORE_HEADERS) } : {}),
  };
}
