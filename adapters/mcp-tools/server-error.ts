import { SdkHttpError } from "@modelcontextprotocol/client";
import { toLine } from "./printable-text.js";

const MAX_REASON_CHARACTERS = 1_000;

/** A failed request to an MCP server. The message is the reason. */
export class McpServerError extends Error {
  /** HTTP status or JSON-RPC error code; undefined if there is none. */
  readonly code: number | undefined;
  /** Whether the connection ended during the request. */
  readonly hasConnectionEnded: boolean;

  constructor(message: string, code?: number, hasConnectionEnded = false) {
    super(message);
    this.code = code;
    this.hasConnectionEnded = hasConnectionEnded;
  }
}

/** One-line reason of an error, without the prefixes that the SDK adds. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } };
  if (error instanceof TypeError && cause) {
    const code = cause.code ?? cause.message;
    return `the server is unreachable (${typeof code === "string" ? code : "no answer"})`;
  }
  if (error instanceof SdkHttpError && error.message.includes("after re-authentication"))
    return "HTTP status 401: the server rejects the new access token";
  if (error instanceof SdkHttpError && (error.status === 401 || error.status === 403))
    return `HTTP status ${error.status}: set the authentication headers in the config of the server`;
  const message = error.message
    .replace(/^MCP error -?\d+: /, "")
    .replace(/^(Streamable HTTP|SSE) error: /, "")
    .replace(/^Error POSTing to endpoint( \(HTTP \d+\))?: /, `HTTP status ${codeOf(error) ?? "unknown"}: `);
  return toLine(message).slice(0, MAX_REASON_CHARACTERS);
}

/** HTTP status or JSON-RPC error code; undefined for an error without code. */
export function codeOf(error: unknown): number | undefined {
  if (error instanceof SdkHttpError) return error.status;
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "number" ? code : undefined;
}
