import type { Settings } from "./options.js";
import type { Written } from "./wires/wire.js";

const HEADER = "anthropic-beta";

/**
 * A request without the beta features that a package asks for by itself, where they are not Anthropic's to grant: others
 * who speak this protocol refuse what they do not know. What the configuration asks for goes to whom it is configured for.
 */
export function ownBetas(written: Written, settings: Settings): Written {
  if (settings.wire !== "anthropic" || new URL(settings.baseUrl).hostname === "api.anthropic.com") return written;
  const configured = Object.entries(settings.headers).find(([name]) => name.toLowerCase() === HEADER)?.[1];
  const { [HEADER]: _, ...headers } = written.headers;
  return { ...written, headers: configured === undefined ? headers : { ...headers, [HEADER]: configured } };
}
