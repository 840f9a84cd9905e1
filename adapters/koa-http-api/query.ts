import type { Context } from "koa";
import { HttpError } from "./errors.js";

/** The error of an invalid query parameter. */
export const createQueryError = (name: string) =>
  new HttpError(400, `invalid query parameter: ${name}`, {}, "invalid_query");

export const PAGE_SIZE = 20;
export const MAX_PAGE_SIZE = 100;
/** Values of `archived` in the query of a list, as in the ACP schema. */
export const ARCHIVE_FILTERS = ["exclude", "include", "only"] as const;

/**
 * The query of a request. The methods return undefined for an absent parameter and throw `HttpError` for an invalid
 * one. A repeated parameter is invalid, because one of its values would be ignored.
 */
export class QueryParameters {
  readonly #params: URLSearchParams;

  constructor(ctx: Context) {
    this.#params = new URLSearchParams(ctx.querystring);
  }

  getText(name: string): string | undefined {
    const values = this.#params.getAll(name);
    if (values.length > 1) throw createQueryError(name);
    return values[0];
  }

  /** All values of a parameter that may be repeated. */
  getTexts(name: string): string[] {
    return this.#params.getAll(name);
  }

  /** An integer of at least `min`. Values above `Number.MAX_SAFE_INTEGER` become this number. */
  getInteger(name: string, min: number): number | undefined {
    const value = this.getText(name);
    if (value === undefined) return undefined;
    // Numbers end below 310 digits: more digits than 400 have no use.
    if (!/^\d{1,400}$/.test(value) || Number(value) < min) throw createQueryError(name);
    return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  }

  getOneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.getText(name);
    if (value === undefined) return undefined;
    const match = values.find((candidate) => candidate === value);
    if (match === undefined) throw createQueryError(name);
    return match;
  }
}

/** Text that cannot be an id and is not passed to the store: empty, too long, or with control characters. */
// eslint-disable-next-line no-control-regex
const INVALID_ID_PATTERN = /^$|^.{257,}$|[\u0000-\u001f\u007f]/s;

/** Whether a text can be an id. */
export function isPossibleId(text: string): boolean {
  return !INVALID_ID_PATTERN.test(text);
}

/** The id in a request's path. Throws `NotFoundError`, without the text, for text that cannot be an id. */
export function readPathId(ctx: Context, NotFoundError: new (id: string) => Error): string {
  const { id = "" } = ctx["params"] as { id?: string };
  if (!isPossibleId(id)) throw new NotFoundError("");
  return id;
}
