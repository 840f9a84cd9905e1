import { option } from "gantry/plugin";

/** Options of this transport, in its entry of `server.transports`. */
export const webConsoleOptions = option.section({
  required_headers: option.headers("Headers that a one-time link gives to the pages. Default: those of `/api`."),
});

/** Options of the transport. */
export interface WebConsoleOptions {
  /** Headers that requests to `/api` must carry. A one-time link gives these headers to the pages. Default: none. */
  readonly requiredHeaders?: Readonly<Record<string, string>> | undefined;
  /** Absolute path of the built pages. Default: the package's own. */
  readonly assets?: string | undefined;
}
