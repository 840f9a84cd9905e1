import type { Context } from "koa";
import { BodyError, isRecord, parseJson, readBody } from "gantry";
import { HttpError, INVALID_BODY } from "./errors.js";

/** What a client asks of a run; checked. */
export interface RunRequest {
  message: string;
  provider: string | undefined;
  model: string | undefined;
  sessionId: string | undefined;
  files: readonly string[];
  stream: boolean;
  /** Names of further fields, which nothing is made of; the first few. */
  ignored: readonly string[];
}

export interface BodyLimits {
  maxBodyBytes: number;
  jsonDepth: number;
}

/** The body of a run request, whatever content type it has. */
export async function readRunRequest(ctx: Context, limits: BodyLimits): Promise<RunRequest> {
  const encoding = ctx.req.headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity")
    throw new HttpError(415, "content encoding not supported", { "Accept-Encoding": "identity" });
  const body = parseJson(await text(ctx, limits.maxBodyBytes), limits.jsonDepth);
  if (!isRecord(body)) throw invalidBody();
  return checked(body);
}

async function text(ctx: Context, maxBytes: number): Promise<string> {
  try {
    return await readBody(ctx.req, maxBytes);
  } catch (error) {
    throw error instanceof BodyError && error.reason === "too_large"
      ? new HttpError(413, "request body too large")
      : invalidBody();
  }
}

function invalidBody(): HttpError {
  return new HttpError(400, INVALID_BODY, {}, "invalid_body");
}

/** Fields that are made something of. */
const KNOWN: ReadonlySet<string> = new Set(["message", "provider", "model", "session_id", "files", "stream"]);
/** Of the others, so many are named, each cut at so many characters. */
const NAMED = { fields: 10, characters: 64 };

function checked(body: Record<string, unknown>): RunRequest {
  const own = (name: string): unknown => (Object.hasOwn(body, name) ? body[name] : undefined);
  const wrong = (name: string) => new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
  const text = (name: string): string | undefined => {
    const value = own(name);
    if (value !== undefined && typeof value !== "string") throw wrong(name);
    // Clients of typed languages send what they do not set as "".
    return value === "" ? undefined : value;
  };
  const message = own("message");
  if (typeof message !== "string" || message.trim() === "")
    throw new HttpError(400, "message is required", {}, "message_required");
  const files = own("files") ?? [];
  if (own("files") === null || !Array.isArray(files) || !files.every((file) => typeof file === "string"))
    throw wrong("files");
  const stream = own("stream");
  if (stream !== undefined && typeof stream !== "boolean") throw wrong("stream");
  return {
    message,
    provider: text("provider"),
    model: text("model"),
    sessionId: text("session_id"),
    files,
    stream: stream ?? false,
    ignored: Object.keys(body)
      .filter((name) => !KNOWN.has(name))
      .slice(0, NAMED.fields)
      .map((name) => name.slice(0, NAMED.characters)),
  };
}
