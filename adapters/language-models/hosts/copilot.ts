import { RejectedRequest } from "../errors.js";
import { asObject, asText, parseJsonObject } from "../json.js";
import type { Settings } from "../options.js";
import type { HttpRequestData } from "../wires/wire.js";
import type { Host, HostContext } from "./host.js";

/** Path that exchanges a GitHub token of an editor for a token of the Copilot API. */
const EXCHANGE_PATH = "/copilot_internal/v2/token";
const MAX_EXCHANGE_BYTES = 64 * 1024;
/** A token is replaced this long before it expires. */
const EXPIRY_MARGIN_MS = 60_000;
/** Hosts that may receive the token and the prompts. Companies and plans have their own subdomain. */
const API_HOST_PATTERN = /(^|\.)githubcopilot\.com$/;
const CLIENT_HEADERS = { "editor-version": "gantry/1", "openai-intent": "conversation-edits" };

interface Access {
  readonly token: string;
  readonly baseUrl: string;
  readonly expiresAtMs: number;
}

/**
 * GitHub Copilot. Tokens of editors (`ghu_`) are exchanged for short-lived tokens of the Copilot API. Other tokens, such
 * as fine-grained personal tokens with the permission "Copilot Requests", are used directly.
 */
export function createCopilotHost({ settings, network }: HostContext): Host {
  const { apiKey = "" } = settings;
  const exchangeUrl = findExchangeUrl(settings.baseUrl);
  let access: Access | undefined;
  const direct: Access = { token: apiKey, baseUrl: settings.baseUrl, expiresAtMs: Infinity };

  const exchange = async (signal: AbortSignal): Promise<Access> => {
    if (!apiKey.startsWith("ghu_")) return direct;
    const headers = { accept: "application/json", authorization: `token ${apiKey}`, ...CLIENT_HEADERS };
    const answer = await network.read(exchangeUrl, { headers }, signal, MAX_EXCHANGE_BYTES, "a Copilot token");
    const { status, text } = answer;
    if (status === 429 || status >= 500)
      throw new RejectedRequest({ ...answer, statusText: "Copilot token not available" }, text);
    const fields = asObject(parseJsonObject(text));
    const token = asText(fields.token);
    // GitHub does not exchange the tokens of every app. The API then decides about the token itself.
    if (status !== 200 || token === "") return direct;
    const api = asText(asObject(fields.endpoints).api);
    const isKnownApi = URL.canParse(api) && API_HOST_PATTERN.test(new URL(api).hostname);
    return {
      token,
      baseUrl: isKnownApi ? api.replace(/\/+$/, "") : settings.baseUrl,
      expiresAtMs: Number(fields.expires_at) * 1000 || Date.now(),
    };
  };
  const getAccess = async (signal: AbortSignal): Promise<Access> => {
    if (access === undefined || access.expiresAtMs - EXPIRY_MARGIN_MS <= Date.now()) access = await exchange(signal);
    return access;
  };

  return {
    async authorizeSettings(signal): Promise<Settings> {
      const { token, baseUrl } = await getAccess(signal);
      return { ...settings, apiKey: token, baseUrl, headers: { ...CLIENT_HEADERS, ...settings.headers } };
    },

    async convert({ url, headers, body }, { request: { messages } }, signal): Promise<HttpRequestData> {
      const { token, baseUrl } = await getAccess(signal);
      return {
        url: url.replace(settings.baseUrl, baseUrl),
        headers: {
          ...CLIENT_HEADERS,
          // Only requests of a user count as premium requests: earendil-works/pi#200.
          "x-initiator": messages.at(-1)?.role === "user" ? "user" : "agent",
          ...(/"(image_url|input_image)"/.test(body) && { "copilot-vision-request": "true" }),
          ...headers,
          authorization: `Bearer ${token}`,
        },
        body,
      };
    },
  };
}

/** The exchange of github.com, of a company at ghe.com (`copilot-api.COMPANY.ghe.com`), or of another server. */
function findExchangeUrl(baseUrl: string): string {
  const { hostname, origin } = new URL(baseUrl);
  if (API_HOST_PATTERN.test(hostname)) return `https://api.github.com${EXCHANGE_PATH}`;
  const [, company] = /^copilot-api\.(.+\.ghe\.com)$/.exec(hostname) ?? [];
  return company === undefined ? `${origin}${EXCHANGE_PATH}` : `https://api.${company}${EXCHANGE_PATH}`;
}
