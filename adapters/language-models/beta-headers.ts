import type { Settings } from "./options.js";
import type { HttpRequestData } from "./wires/wire.js";

const HEADER = "anthropic-beta";

/**
 * Removes the beta features that the package adds, unless the server is Anthropic's: other servers of this protocol
 * reject unknown features. Configured features are always sent.
 */
export function ownBetas(written: HttpRequestData, settings: Settings): HttpRequestData {
  if (settings.wire !== "anthropic" || new URL(settings.baseUrl).hostname === "api.anthropic.com") return written;
  const configured = Object.entries(settings.headers).find(([name]) => name.toLowerCase() === HEADER)?.[1];
  const { [HEADER]: _, ...headers } = written.headers;
  return { ...written, headers: configured === undefined ? headers : { ...headers, [HEADER]: configured } };
}
