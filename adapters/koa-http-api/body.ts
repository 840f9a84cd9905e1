import type { Context, Middleware } from "koa";
import { HttpMethodEnum, koaBody } from "koa-body";
import * as v from "valibot";
import { isRecord } from "gantry/plugin";
import { rechunkBody } from "gantry/http";
import { HttpError, INVALID_BODY_MESSAGE } from "./errors.js";
import { JSON_TYPE } from "./headers.js";

export interface RequestBodyLimits {
  maxBodyBytes: number;
  /** Maximum nesting depth of the JSON. */
  jsonDepth: number;
}

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
        throw (error as { status?: unknown }).status === 413 ? createTooLargeError() : createInvalidBodyError();
      },
    }) as Middleware;
  }

  /** Reads a body that must be a JSON object. Rejects with `HttpError` for other, invalid or too large bodies. */
  async readJson(ctx: Context): Promise<Record<string, unknown>> {
    const { headers } = ctx.req;
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding.toLowerCase() !== "identity")
      throw new HttpError(415, "content encoding not supported", { "Accept-Encoding": "identity" });
    // Reject a body that is too large before reading it.
    if (Number(headers["content-length"] ?? 0) > this.#limits.maxBodyBytes) throw createTooLargeError();
    // The parser chooses the format by this header; clients of this API may send any type.
    headers["content-type"] = JSON_TYPE;
    // Check the body first: the parser limits neither depth nor keys and replaces invalid UTF-8. For a body that
    // arrives byte by byte, it would also need hundreds of times its size in memory.
    const req = rechunkBody(ctx.req, { jsonDepth: this.#limits.jsonDepth });
    const bodyContext = Object.create(ctx, { req: { value: req } }) as Context;
    await this.#parser(bodyContext, () => Promise.resolve());
    const { body } = bodyContext.request as { body?: unknown };
    if (!isRecord(body)) throw createInvalidBodyError();
    return body;
  }
}

function createTooLargeError(): HttpError {
  return new HttpError(413, "request body too large");
}

function createInvalidBodyError(): HttpError {
  return new HttpError(400, INVALID_BODY_MESSAGE, {}, "invalid_body");
}

/** Error for an invalid field; `name` is the name on the wire. */
export function createFieldError(name: string): HttpError {
  return new HttpError(400, `invalid field: ${name}`, {}, "invalid_field");
}

type SchemasByField = Record<string, v.GenericSchema>;
type SentValue<Shape extends v.GenericSchema | undefined> = Shape extends v.GenericSchema ? v.InferInput<Shape> : never;

/** Reads the fields of a request body by a schema. Ignores inherited properties. */
export class Fields<const Schemas extends SchemasByField> {
  readonly #schemas: Schemas;
  readonly #body: Readonly<Record<string, unknown>>;

  constructor({ entries }: { readonly entries: Schemas }, body: Readonly<Record<string, unknown>>) {
    this.#schemas = entries;
    this.#body = body;
  }

  /**
   * The value as sent; undefined if the field is absent, even a required field. Throws `HttpError` if the value does
   * not match the schema.
   */
  get<Name extends keyof Schemas & string>(name: Name): SentValue<Schemas[Name]> | undefined {
    if (!Object.hasOwn(this.#body, name)) return undefined;
    const value = this.#body[name];
    if (!v.is(this.#schemas[name]!, value)) throw createFieldError(name);
    return value as SentValue<Schemas[Name]>;
  }

  /** Like `get` for a text; undefined also for `""`. */
  getText<Name extends keyof Schemas & string>(name: Name): Exclude<SentValue<Schemas[Name]>, ""> | undefined {
    const value = this.get(name);
    // Clients in typed languages send unset fields as "".
    return value === "" ? undefined : (value as Exclude<SentValue<Schemas[Name]>, "">);
  }
}
