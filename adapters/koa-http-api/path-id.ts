import type { Context } from "koa";

/** Text that cannot be an id and is not passed to the store: empty, too long, or with control characters. */
// eslint-disable-next-line no-control-regex
const INVALID_ID_PATTERN = /^$|^.{257,}$|[\u0000-\u001f\u007f]/s;

/** The id in a request's path. Throws `NotFoundError`, without the text, for text that cannot be an id. */
export function readPathId(ctx: Context, NotFoundError: new (id: string) => Error): string {
  const { id = "" } = ctx["params"] as { id?: string };
  if (INVALID_ID_PATTERN.test(id)) throw new NotFoundError("");
  return id;
}
