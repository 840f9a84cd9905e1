import type { Context } from "koa";
import { HttpError } from "./errors.js";

const createQueryError = (name: string) => new HttpError(400, `invalid query parameter: ${name}`, {}, "invalid_query");

export const PAGE_SIZE = 20;
export const MAX_PAGE_SIZE = 100;

/** The query of a request. A repeated parameter is rejected, because one of its values would be ignored. */
export class QueryParameters {
  readonly #params: URLSearchParams;

  constructor(ctx: Context) {
    this.#params = new URLSearchParams(ctx.querystring);
  }

  text(name: string): string | undefined {
    const values = this.#params.getAll(name);
    if (values.length > 1) throw createQueryError(name);
    return values[0];
  }

  /** An integer of at least `min`; undefined if absent. Larger values become `Number.MAX_SAFE_INTEGER`. */
  integer(name: string, min: number): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!/^\d{1,400}$/.test(value) || Number(value) < min) throw createQueryError(name);
    return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  }

  oneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const match = values.find((candidate) => candidate === value);
    if (match === undefined) throw createQueryError(name);
    return match;
  }
}
