import type { Context, Middleware } from "koa";
import { HttpMethodEnum, koaBody } from "koa-body";
import { isRecord, parseJson } from "gantry";
import { gatheredBody } from "gantry/http";
import { HttpError, INVALID_BODY } from "./errors.js";

export interface BodyLimits {
  maxBodyBytes: number;
  jsonDepth: number;
}

/** Reads the bodies of requests, whatever content type they have. */
export class BodyReader {
  readonly #limits: BodyLimits;
  readonly #parser: Middleware;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
    // All that it would find missing: where it is bundled, it fills in nothing.
    this.#parser = koaBody({
      parsedMethods: [HttpMethodEnum.POST, HttpMethodEnum.PATCH],
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

  /** A body that is an object. Throws `HttpError`. */
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
