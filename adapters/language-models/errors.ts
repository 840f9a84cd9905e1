import { hasCode, ProviderError, type ProviderErrorKind } from "gantry";
import type { CompleteBody } from "./bodies.js";
import { findContextTokens, isContextOverflow } from "./context-overflow.js";
import { faultOf, describeUnreadable, looksLikeHtml, readRetryAfterMs, type ProviderFault } from "./provider-fault.js";
import { asObject, parseJsonObject, isErrorValue } from "./json.js";
import { UNREADABLE_CALL, type FaultContext } from "./invalid-answers.js";

export type { FaultContext } from "./invalid-answers.js";

const FILTER_PATTERN =
  /content[_ -]?(filter|policy|management)|safety (system|filter|settings)|prohibited[_ ]content|moderation|flagged/i;
const NO_CREDIT_PATTERN =
  /insufficient[_ ](quota|balance|funds|credits?)|billing|exceeded your current quota|payment required|credit balance|out of credits/i;
/** Groq's error codes for invalid output of its model; Groq reports the fault as a rejected request. */
const INVALID_CALL_PATTERN = /\b(tool_use_failed|output_parse_failed)\b/;
const NETWORK_CODE_PATTERN =
  /^(ECONNRESET|ECONNREFUSED|ECONNABORTED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EPROTO|UND_ERR_(SOCKET|CONNECT_TIMEOUT|HEADERS_TIMEOUT|BODY_TIMEOUT|CLOSED|DESTROYED|INFO|RES_CONTENT_LENGTH_MISMATCH|REQ_RETRY|PRX_TLS|ABORTED)|HPE_.*)$/;
const UNREACHABLE_CODE_PATTERN = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const CERTIFICATE_CODE_PATTERN = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|ERR_TLS/;

const MAX_CAUSE_DEPTH = 5;
/** Maximum characters of a provider's message. `ProviderError` would cut the remedy after a longer one. */
const MAX_MESSAGE_CHARACTERS = 300;

/** A response with an error status. `faultOf` reads the fields by name. */
export class RejectedRequest extends Error {
  readonly statusCode: number;
  readonly responseHeaders: Readonly<Record<string, string>>;
  readonly responseBody: string;
  constructor(
    { status, statusText, headers }: Pick<CompleteBody, "status" | "headers"> & { statusText: string },
    body: string,
  ) {
    super(statusText);
    this.statusCode = status;
    this.responseHeaders = headers;
    this.responseBody = body;
  }
}

/**
 * Converts any error of a provider to its kind, the provider's message without secrets, and the delay before a retry.
 */
export function toProviderError(error: unknown, context: FaultContext): ProviderError {
  const providerError = findProviderError(error);
  if (providerError !== undefined) return providerError;
  const createError = (
    kind: ProviderErrorKind,
    message: string,
    details: { status?: number; retryAfterMs?: number; unreachable?: boolean; contextTokens?: number } = {},
  ): ProviderError => {
    const redactedMessage = context.redact(message);
    const fullMessage = kind === "authentication" ? addKeyRemedy(redactedMessage, context) : redactedMessage;
    return new ProviderError(context.provider, kind, fullMessage, details);
  };

  const code = findNetworkCode(error);
  // An error of a broken connection may contain the status of the interrupted answer.
  if (code !== undefined) {
    if (CERTIFICATE_CODE_PATTERN.test(code)) return createError("protocol", `the connection is not trusted (${code})`);
    return createError("network", describeNetworkError(error, code), {
      unreachable: UNREACHABLE_CODE_PATTERN.test(code),
    });
  }
  if (isNamed(error, "AI_APICallError") && asObject(error).statusCode === 200) {
    const body = asObject(error).responseBody;
    return createError(
      "protocol",
      typeof body === "string" ? describeUnreadable(body) : "the answer could not be read",
    );
  }
  if (isNamed(error, "AI_JSONParseError") || isNamed(error, "AI_TypeValidationError")) {
    const isInvalidJson = isNamed(error, "AI_JSONParseError");
    const value = isInvalidJson ? parseJsonObject(asObject(error).text) : asObject(error).value;
    const innerFault = asObject(value).error === undefined ? undefined : faultOf(value);
    // A retry may help after a truncated chunk, but not after a chunk of an unknown form.
    if (innerFault === undefined)
      return createError(isInvalidJson ? "server" : "protocol", "a malformed chunk in the answer");
    return createError(kindOf(innerFault), innerFault.message, contextOf(innerFault));
  }
  if (isNamed(error, "AI_InvalidResponseDataError") || isNamed(error, "AI_EmptyResponseBodyError")) {
    return /finish reason/.test(messageOf(error))
      ? createError("network", "the answer ended before it was finished")
      : createError("protocol", messageOf(error));
  }
  if (isNamed(error, "AI_UnsupportedFunctionalityError")) return createError("bad_request", messageOf(error));
  if (isNamed(error, "AI_NoSuchModelError")) return createError("not_found", messageOf(error));
  if (isNamed(error, "AI_LoadAPIKeyError")) return createError("authentication", messageOf(error));

  const fault = faultOf(error);
  if (INVALID_CALL_PATTERN.test(fault.typeAndCode))
    return UNREADABLE_CALL.toError(context, fault.modelOutput ?? fault.message, fault.status);
  const { status, headers, waitMs } = fault;
  const retryAfterMs = readRetryAfterMs(headers) ?? waitMs;
  return createError(kindOf(fault), fault.message, { status, retryAfterMs, ...contextOf(fault) });
}

/** Appends where the rejected key is set, without the key. */
function addKeyRemedy(message: string, { keyVariables }: FaultContext): string {
  if (keyVariables === undefined) return message;
  const sources = ["api_key of the provider in the config", ...keyVariables].join(" or ");
  const command = keyVariables.length > 0 ? " (gantry init sets the key)" : "";
  return `${message.slice(0, MAX_MESSAGE_CHARACTERS).replace(/[.\s]+$/, "")}; check ${sources}${command}`;
}

function contextOf(fault: ProviderFault): { contextTokens?: number | undefined } {
  return isContextOverflow(fault) ? { contextTokens: findContextTokens(fault) } : {};
}

/** Converts an unexpected body to an error: an error object, the page of a proxy, or anything else. */
export function toUnexpectedBodyError(body: string, context: FaultContext): ProviderError {
  const parsedBody = parseJsonObject(body);
  const { error, detail, message } = asObject(Array.isArray(parsedBody) ? (parsedBody as unknown[])[0] : parsedBody);
  if (isErrorValue(error) || detail !== undefined || message !== undefined) return toProviderError(parsedBody, context);
  const reason = describeUnreadable(body);
  const description = looksLikeHtml(body) ? reason : `unexpected: ${reason}`;
  return new ProviderError(context.provider, "protocol", context.redact(description));
}

function kindOf(fault: ProviderFault): ProviderErrorKind {
  const { status, message, typeAndCode, isThrown } = fault;
  const text = `${typeAndCode} ${message}`;
  if (isContextOverflow(fault)) return "context_length";
  if (status === undefined) return kindOfText(text) ?? (isThrown ? "protocol" : "server");
  if (
    NO_CREDIT_PATTERN.test(typeAndCode) ||
    status === 402 ||
    (status === 429 && NO_CREDIT_PATTERN.test(message) && !/per (minute|day)/i.test(message))
  )
    return "permission";
  if (status === 401) return "authentication";
  if (status === 403) return FILTER_PATTERN.test(text) ? "content_filter" : "permission";
  if (status === 404) return "not_found";
  if (status === 408) return "timeout";
  if (status === 413) return "context_length";
  if (status === 429) return "rate_limit";
  if (status === 503 || status === 529 || /overloaded/i.test(typeAndCode)) return "overloaded";
  if (status >= 500 || status === 409 || status === 425) return "server";
  // Gemini returns 400 for an unknown API key.
  if (/api[_ ]key[_ ](not valid|invalid)|invalid[_ ]api[_ ]key|API_KEY_INVALID/i.test(text)) return "authentication";
  if (status >= 400)
    return FILTER_PATTERN.test(text) && !/invalid/i.test(typeAndCode) ? "content_filter" : "bad_request";
  return "protocol";
}

/** Kind of an error without status, such as an error within a stream; undefined if the text matches no kind. */
function kindOfText(text: string): ProviderErrorKind | undefined {
  if (NO_CREDIT_PATTERN.test(text)) return "permission";
  if (/overloaded|unavailable|capacity/i.test(text)) return "overloaded";
  if (/rate[_ ]?limit|too many requests|resource_exhausted/i.test(text)) return "rate_limit";
  if (/authentication|unauthorized|invalid[_ ]api[_ ]key/i.test(text)) return "authentication";
  if (/permission|forbidden/i.test(text)) return "permission";
  if (/time[_ ]?out|timed out|deadline/i.test(text)) return "timeout";
  if (FILTER_PATTERN.test(text)) return "content_filter";
  if (/not_found|does not exist/i.test(text)) return "not_found";
  if (/server|internal|api_error/i.test(text)) return "server";
  if (/invalid|bad[_ ]request/i.test(text)) return "bad_request";
  return undefined;
}

/** Code of a connection error among an error and its causes; undefined for other errors. */
function findNetworkCode(error: unknown): string | undefined {
  const visitedErrors = new Set<unknown>();
  let current: unknown = error;
  while (current instanceof Error && !visitedErrors.has(current)) {
    visitedErrors.add(current);
    const { code } = current as { code?: unknown };
    if (typeof code === "string" && (NETWORK_CODE_PATTERN.test(code) || CERTIFICATE_CODE_PATTERN.test(code)))
      return code;
    // undici's error for a connection that ended within the body; its cause may be a plain Error.
    if (current instanceof TypeError && /^(terminated|fetch failed)$/.test(current.message)) {
      return findNetworkCode(current.cause) ?? "connection lost";
    }
    if (current instanceof AggregateError) {
      const firstCode = findNetworkCode(current.errors[0]);
      if (firstCode !== undefined) return firstCode;
    }
    current = current.cause;
  }
  return undefined;
}

function describeNetworkError(error: unknown, code: string): string {
  const url = asObject(error).url;
  const status = asObject(error).statusCode;
  const target = typeof url === "string" && URL.canParse(url) ? ` to ${new URL(url).host}` : "";
  if (code === "ECONNREFUSED") return `no connection${target} (${code}); is the server running?`;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN")
    return `no connection${target} (${code}); check base_url and the network`;
  // A status means that the connection broke within the answer.
  return status === undefined ? `no connection${target} (${code})` : `the connection${target} broke (${code})`;
}

/** The `ProviderError` among an error and its causes; undefined if there is none. */
function findProviderError(error: unknown): ProviderError | undefined {
  let current: unknown = error;
  for (let depth = 0; depth < MAX_CAUSE_DEPTH && current instanceof Error; depth++) {
    if (hasCode(current, "provider")) return current;
    current = current.cause;
  }
  return undefined;
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
