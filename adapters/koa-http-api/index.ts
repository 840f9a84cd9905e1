import { defineAdapter } from "gantry";
import { KoaHttpTransport } from "./koa-http-transport.js";
import { koaHttpOptions } from "./options.js";

export { KoaHttpTransport } from "./koa-http-transport.js";
export type { KoaHttpOptions } from "./options.js";

export default defineAdapter({
  kind: "transport",
  name: "koa-http-api",
  schema: koaHttpOptions,
  create: ({ limits, ...options }, { http, logger, allowPaths, deniedPaths }) =>
    new KoaHttpTransport({ ...options, ...limits, allowPaths, deniedPaths }, http, logger),
});
