import type { Fetch } from "./fetch.js";
import type { Settings } from "./options.js";

const HEADER = "anthropic-beta";

/**
 * `fetch` without the beta features that a package asks for by itself, where they are not Anthropic's to grant: others who
 * speak this protocol refuse what they do not know. What the configuration asks for goes to whom it is configured for.
 */
export function ownBetas(fetch: Fetch, settings: Settings): Fetch {
  if (settings.wire !== "anthropic" || new URL(settings.baseUrl).hostname === "api.anthropic.com") return fetch;
  const configured = Object.entries(settings.headers).find(([name]) => name.toLowerCase() === HEADER)?.[1];
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    if (configured === undefined) headers.delete(HEADER);
    else headers.set(HEADER, configured);
    return await fetch(input, { ...init, headers });
  };
}
