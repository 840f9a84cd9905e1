import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isRecord } from "gantry/plugin";

/** Maximum nesting of arrays and objects in a message. Code that serializes deeper values overflows the stack. */
export const MAX_DEPTH = 128;

/** JSON-RPC code of an internal error. */
const INTERNAL_ERROR_CODE = -32_603;

/**
 * Returns the message if its nesting is within `MAX_DEPTH`. Otherwise:
 *
 * - A list of tools is truncated at that depth. The schema check then rejects the deep tools only.
 * - Any other response becomes an error response.
 * - A request or notification is dropped: the result is undefined.
 */
export function limitDepth(message: JSONRPCMessage): JSONRPCMessage | undefined {
  if (!isTooDeep(message)) return message;
  if (!("id" in message) || "method" in message || message.id === undefined) return undefined;
  const { id } = message;
  const result = "result" in message ? message.result : undefined;
  if (isRecord(result) && Array.isArray(result["tools"]))
    return { jsonrpc: "2.0", id, result: truncate(result, MAX_DEPTH) as Record<string, unknown> };
  return { jsonrpc: "2.0", id, error: { code: INTERNAL_ERROR_CODE, message: "the response is nested too deeply" } };
}

function isTooDeep(message: JSONRPCMessage): boolean {
  let level: object[] = [message];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) return true;
    const nextLevel: object[] = [];
    for (const parent of level)
      for (const value of Object.values(parent) as unknown[])
        if (typeof value === "object" && value !== null) nextLevel.push(value);
    level = nextLevel;
  }
  return false;
}

/** Replaces objects and arrays that are nested deeper than `depth` with null. */
function truncate(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth === 0) return null;
  if (Array.isArray(value)) return value.map((item) => truncate(item, depth - 1));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, truncate(item, depth - 1)]));
}
