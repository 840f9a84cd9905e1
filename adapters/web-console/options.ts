import { option } from "gantry";
import type { HttpHostOptions } from "gantry/http";

/** Its options in its own entry of `server.transports`. */
export const webConsoleOptions = option.section({
  required_headers: option.headers(
    "Headers that requests to `/api` must carry: whoever opens the console with a one-time link is given them. Default: those of `/api`.",
  ),
});

/** What the transport is told; an embedder may leave everything out. What it has of `HttpHostOptions` holds only where it opens a port of its own. */
export interface WebConsoleOptions extends Omit<HttpHostOptions, "logger"> {
  /** What requests to `/api` must carry, so that pages can send it. Default none. */
  requiredHeaders?: Readonly<Record<string, string>>;
  /** Folder of the pages, as the build makes it. Default: that of the package. Absolute. */
  assets?: string;
}
