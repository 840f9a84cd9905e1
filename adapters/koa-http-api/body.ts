import type { Context, Middleware } from "koa";
import { HttpMethodEnum, koaBody } from "koa-body";
import { isRecord } from "gantry/plugin";
import { gatheredBody } from "gantry/http";
import { HttpError, INVALID_BODY } from "./errors.js";

export interface RequestBodyLimits {
  maxBodyBytes: number;
  jsonDepth: number;
}

const JSON_TYPE = "application/json";

/** Reads request bodies as JSON; ignores their content type. */
export class BodyReader {
  readonly #limits: RequestBodyLimits;
  readonly #parser: Middleware;

  constructor(limits: RequestBodyLimits) {
    this.#limits = limits;
    // All options are set: a bundled parser applies no defaults.
    this.#parser = koaBody({
      parsedMethods: [HttpMethodEnum.POST, HttpMethodEnum.PATCH],
      patchKoa: true,
      json: true,
      jsonTypes: [JSON_TYPE],
      jsonLimit: limits.maxBodyBytes,
      // The strict mode would turn an empty body into an object.
      jsonStrict: false,
      encoding: "utf-8",
      text: false,
      urlencoded: false,
      multipart: false,
      onError: (error) => {
        throw (error as { status?: unknown }).status === 413 ? tooLarge() : invalidBody();
      },
    }) as Middleware;
  }

  /** Reads a body that must be a JSON object. Throws `HttpError`. */
  async json(ctx: Context): Promise<Record<string, unknown>> {
    const { headers } = ctx.req;
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding.toLowerCase() !== "identity")
      throw new HttpError(415, "content encoding not supported", { "Accept-Encoding": "identity" });
    // Reject before reading the body.
    if (Number(headers["content-length"] ?? 0) > this.#limits.maxBodyBytes) throw tooLarge();
    // The parser chooses the format by this header, which this API ignores.
    headers["content-type"] = JSON_TYPE;
    // The parser limits neither depth nor keys and replaces invalid UTF-8. It would store a body that arrives byte by
    // byte at hundreds of times its size.
    const req = gatheredBody(ctx.req, { jsonDepth: this.#limits.jsonDepth });
    const gathered = Object.create(ctx, { req: { value: req } }) as Context;
    await this.#parser(gathered, () => Promise.resolve());
    const { body } = gathered.request as { body?: unknown };
    if (!isRecord(body)) throw invalidBody();
    return body;
  }
}

function tooLarge(): HttpError {
  return new HttpError(413, "request body too large");
}

function invalidBody(): HttpError {
  return new HttpError(400, INVALID_BODY, {}, "invalid_body");
}
