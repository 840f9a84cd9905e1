import type { Context } from "koa";
import type { ApiParts } from "./api.js";
import { allowed, METHODS } from "./cors.js";

/** What only those ask for who use it: the lists stay as they were for all others. */
const MORE_HEADERS = ["Idempotency-Key", "Last-Event-ID"];

/** What a browser's preflight is told beside, when it asks for more than the common lists hold. */
export function preflightHeaders(ctx: Context, { options, proving }: ApiParts): Record<string, string> {
  const wanted = ctx
    .get("Access-Control-Request-Headers")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  const isWanted = (name: string): boolean => wanted.includes(name.toLowerCase());
  const common = allowed(options).toLowerCase().split(", ");
  // Of required headers the name that it knows: it is the value that proves something.
  const more = [
    ...(MORE_HEADERS.some(isWanted) ? MORE_HEADERS : []),
    ...proving.filter((name) => isWanted(name) && !common.includes(name.toLowerCase())),
  ];
  return {
    ...(ctx.get("Access-Control-Request-Method") === "PATCH"
      ? { "Access-Control-Allow-Methods": METHODS.replace("DELETE", "PATCH, DELETE") }
      : {}),
    ...(more.length > 0 ? { "Access-Control-Allow-Headers": allowed(options, more) } : {}),
  };
}
