import { gzipSync } from "node:zlib";
import { Agent, type Logger } from "gantry";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { WebConsoleTransport } from "gantry/adapters/web-console";
import { openHttpHost, type HttpHost, type HttpHostOptions } from "gantry/http";
import { tempDir, type Hooks } from "./temp-dir.js";

/** A page and a script like those of the build. */
export const INDEX_PAGE = '<!doctype html><script type="module" src="/console/assets/main-ABC.js"></script>';
export const PAGE_SCRIPT = `document.title = "${"x".repeat(2_000)}";`;

/**
 * Serves the API and the console on one port, as an embedder does. `assets`: the console's folder; default: a new
 * folder with the page, the script and files that must not be served.
 */
export async function serveConsole(
  hooks: Hooks,
  options: HttpHostOptions & { logger?: Logger; isConsoleOnly?: boolean; assets?: string } = {},
): Promise<{ url: string; host: HttpHost; assets: string }> {
  const folder = await tempDir(hooks, {
    "index.html": INDEX_PAGE,
    "secret.txt": "nobody's",
    "assets/main-ABC.js": PAGE_SCRIPT,
    "assets/main-ABC.js.gz": gzipSync(PAGE_SCRIPT),
    "assets/icon-ABC.svg": "<svg/>",
    "assets/notes.txt": "nobody's either",
    "assets/.hidden.js": "hidden",
  });
  const { isConsoleOnly, assets = folder.path, ...hostOptions } = options;
  const host = openHttpHost({ port: 0, ...hostOptions });
  const agent = new Agent({ providers: [new OfflineProvider({ servers: [] })] });
  hooks.after(async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  });
  if (isConsoleOnly !== true) await new KoaHttpTransport({}, host, options.logger).start(agent);
  const { requiredHeaders } = options;
  const consoleTransport = new WebConsoleTransport({ assets, requiredHeaders }, host, options.logger);
  const { address } = await consoleTransport.start(agent);
  return { url: address.replace(/\/console$/, ""), host, assets };
}
