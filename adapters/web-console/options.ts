import { option } from "gantry/plugin";

/** Its options in its own entry of `server.transports`. */
export const webConsoleOptions = option.section({
  required_headers: option.headers("Headers that a one-time link gives to the pages. Default: those of `/api`."),
});

/** What the transport is told; an embedder may leave everything out. */
export interface WebConsoleOptions {
  /** What requests to `/api` must carry: a one-time link gives it to the pages. Default none. */
  readonly requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /** Folder of the pages, as the build makes it. Default: that of the package. Absolute. */
  readonly assets?: string | undefined;
}
