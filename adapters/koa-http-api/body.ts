import { createHash } from "node:crypto";
import type { Context, Middleware } from "koa";
import { HttpMethodEnum, koaBody } from "koa-body";
import { isRecord, parseJson, type SessionMode } from "gantry";
import { gatheredBody } from "gantry/http";
import { HttpError, INVALID_BODY } from "./errors.js";

/** What a client asks of a run; checked. */
export interface RunRequest {
  message: string;
  provider: string | undefined;
  model: string | undefined;
  sessionId: string | undefined;
  files: readonly string[];
  stream: boolean;
  /** Answered at once; the run goes on whatever becomes of its client. */
  background: boolean;
  onDisconnect: "cancel" | "continue" | undefined;
  mode: SessionMode | undefined;
  /** All that was asked, in a form that is the same for the same. */
  fingerprint: () => string;
  /** Names of further fields, which nothing is made of; the first few. */
  ignored: readonly string[];
}

export interface BodyLimits {
  maxBodyBytes: number;
  jsonDepth: number;
}

/** Reads the bodies of run requests, whatever content type they have. */
export class BodyReader {
  readonly #limits: BodyLimits;
  readonly #parser: Middleware;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
    // All that it would find missing: where it is bundled, it fills in nothing.
    this.#parser = koaBody({
      parsedMethods: [HttpMethodEnum.POST],
      patchKoa: true,
      text: true,
      textTypes: ["text/plain"],
      textLimit: limits.maxBodyBytes,
      // Bytes as they are, so that broken UTF-8 is seen and not mended.
      encoding: "",
      json: false,
      urlencoded: false,
      multipart: false,
    }) as Middleware;
  }

  async read(ctx: Context): Promise<RunRequest> {
    return checked(await this.json(ctx));
  }

  /** Any body: an object. Throws `HttpError`. */
  async json(ctx: Context): Promise<Record<string, unknown>> {
    const { headers } = ctx.req;
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding.toLowerCase() !== "identity")
      throw new HttpError(415, "content encoding not supported", { "Accept-Encoding": "identity" });
    // Before a byte of it is taken.
    if (Number(headers["content-length"] ?? 0) > this.#limits.maxBodyBytes) throw tooLarge();
    const body = parseJson(await this.#text(ctx), this.#limits.jsonDepth);
    if (!isRecord(body)) throw invalidBody();
    return body;
  }

  async #text(ctx: Context): Promise<string> {
    // The parser chooses by this header, which says nothing here.
    ctx.req.headers["content-type"] = "text/plain";
    // It would keep a body of single bytes byte by byte, at hundreds of times its size.
    const gathered = Object.create(ctx, { req: { value: gatheredBody(ctx.req) } }) as Context;
    try {
      await this.#parser(gathered, () => Promise.resolve());
    } catch (error) {
      throw (error as { status?: unknown }).status === 413 ? tooLarge() : invalidBody();
    }
    const { body } = gathered.request as { body?: Buffer };
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(body);
    } catch {
      throw invalidBody();
    }
  }
}

function tooLarge(): HttpError {
  return new HttpError(413, "request body too large");
}

function invalidBody(): HttpError {
  return new HttpError(400, INVALID_BODY, {}, "invalid_body");
}

/** Fields that are made something of. */
const KNOWN: ReadonlySet<string> = new Set([
  "message",
  "provider",
  "model",
  "session_id",
  "files",
  "stream",
  "background",
  "on_disconnect",
  "mode",
]);
/** Of the others, so many are named, each cut at so many characters. */
const NAMED = { fields: 10, characters: 64 };

/** A field that is text where it is given; `""` is none. Throws `HttpError`. */
export function textField(body: Record<string, unknown>, name: string): string | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  if (value !== undefined && typeof value !== "string") throw invalidField(name);
  // Clients of typed languages send what they do not set as "".
  return value === "" ? undefined : value;
}

export function invalidField(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

/** JSON whose fields stand in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}

function checked(body: Record<string, unknown>): RunRequest {
  const own = (name: string): unknown => (Object.hasOwn(body, name) ? body[name] : undefined);
  const wrong = invalidField;
  const text = (name: string) => textField(body, name);
  const message = own("message");
  if (typeof message !== "string" || message.trim() === "")
    throw new HttpError(400, "message is required", {}, "message_required");
  const files = own("files") ?? [];
  if (own("files") === null || !Array.isArray(files) || !files.every((file) => typeof file === "string"))
    throw wrong("files");
  const flag = (name: string): boolean => {
    const value = own(name) ?? false;
    if (own(name) === null || typeof value !== "boolean") throw wrong(name);
    return value;
  };
  const oneOf = <T extends string>(name: string, values: readonly T[]): T | undefined => {
    const value = text(name);
    const known = values.find((one) => one === value);
    if (value !== undefined && known === undefined) throw wrong(name);
    return known;
  };
  const [stream, background] = [flag("stream"), flag("background")];
  // There is nobody to stream to.
  if (stream && background) throw wrong("background");
  return {
    message,
    provider: text("provider"),
    model: text("model"),
    sessionId: text("session_id"),
    files,
    stream,
    background,
    onDisconnect: oneOf("on_disconnect", ["cancel", "continue"]),
    mode: oneOf("mode", ["auto", "ask", "plan"]),
    fingerprint: () => createHash("sha256").update(canonical(body)).digest("base64url"),
    ignored: Object.keys(body)
      .filter((name) => !KNOWN.has(name))
      .slice(0, NAMED.fields)
      .map((name) => name.slice(0, NAMED.characters)),
  };
}
