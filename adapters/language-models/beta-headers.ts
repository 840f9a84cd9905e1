import type { Settings } from "./options.js";
import type { HttpRequestData } from "./wires/wire.js";

const BETA_HEADER = "anthropic-beta";

/**
 * Removes the beta features that the AI SDK package adds, unless the server is Anthropic's: other servers of this
 * protocol reject unknown features. Configured features are always sent.
 */
export function removePackageBetas(request: HttpRequestData, settings: Settings): HttpRequestData {
  if (settings.wire !== "anthropic" || new URL(settings.baseUrl).hostname === "api.anthropic.com") return request;
  const configuredBetas = Object.entries(settings.headers).find(([name]) => name.toLowerCase() === BETA_HEADER)?.[1];
  const { [BETA_HEADER]: _, ...headers } = request.headers;
  return {
    ...request,
    headers: configuredBetas === undefined ? headers : { ...headers, [BETA_HEADER]: configuredBetas },
  };
}
