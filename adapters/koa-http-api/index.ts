import { defineAdapter } from "gantry";
import { KoaHttpTransport } from "./koa-http-transport.js";
import { parseOptions } from "./options.js";

export { KoaHttpTransport } from "./koa-http-transport.js";
export type { KoaHttpOptions } from "./options.js";

export default defineAdapter({
  kind: "transport",
  name: "koa-http-api",
  parse: parseOptions,
  use: KoaHttpTransport,
});
