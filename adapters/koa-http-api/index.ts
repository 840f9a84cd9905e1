import { resolve } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { KoaHttpTransport } from "./koa-http-transport.js";
import { koaHttpOptions } from "./options.js";

export { KoaHttpTransport } from "./koa-http-transport.js";
export type { KoaHttpOptions } from "./options.js";

export default defineAdapter({
  kind: "transport",
  name: "koa-http-api",
  schema: koaHttpOptions,
  create: ({ limits, ...options }, { http, logger, configDir, allowPaths, deniedPaths, environment }) => {
    const projectRoots = options.projectRoots.map((path) => resolve(configDir, path));
    const paths = { projectRoots, allowPaths, deniedPaths };
    return new KoaHttpTransport({ ...options, ...limits, ...paths, environment }, http, logger);
  },
});
