import type { Context } from "koa";

/** What no id has; asking the store for it would be a waste, or worse. */
// eslint-disable-next-line no-control-regex
const NO_ID = /^$|^.{257,}$|[\u0000-\u001f\u007f]/s;

/** The id in a request's path. Throws the given error for what can be none. */
export function idIn(ctx: Context, NotFound: new (id: string) => Error): string {
  const { id = "" } = ctx["params"] as { id?: string };
  if (NO_ID.test(id)) throw new NotFound("");
  return id;
}
