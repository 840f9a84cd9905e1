import { hasCode, ProviderError, type ProviderErrorKind } from "gantry";
import { UNREADABLE_CALL, type FaultContext } from "./slips.js";

export type { FaultContext } from "./slips.js";

/** What a thrown thing or an `error` part tells, wherever it keeps it. */
interface Fault {
  status: number | undefined;
  message: string;
  /** Words for machines: `type` and `code` of the body. */
  words: string;
  headers: Readonly<Record<string, string>>;
  /** As Google says it, in the body. */
  waitMs: number | undefined;
  /** What the model said, where it is told why that could not be used. */
  said: string | undefined;
  /** Whether it was thrown, so that it need not be the server's. */
  thrown: boolean;
}

type Bag = Readonly<Record<string, unknown>>;

const CONTEXT_LENGTH = new RegExp(
  [
    "context[_ -]?length[_ -]?exceeded",
    "maximum context length",
    "max(imum)? (model|prompt|context|input) (length|tokens)",
    "model_context_window_exceeded",
    "context (window|size|limit|length)[^.]{0,40}exceed",
    "exceed[^.]{0,60}(context|token limit|maximum number of tokens|max_num_tokens)",
    "(prompt|input|request|conversation|messages?) (is|are|was) too (long|large)",
    "input is too long",
    "too large for model",
    "longer than the (maximum )?(model|context)",
    "greater than the context length",
    "reduce the length of (the )?(messages|your prompt|prompt|input)",
    "input or output tokens must be reduced",
    "input length and .?max_tokens.? exceed",
    "exceed_context_size",
    "context the overflows",
    "too many (input )?tokens",
    "token count \\(?\\d+\\)? exceeds",
    "string_above_max_length",
  ].join("|"),
  "i",
);
const FILTERED =
  /content[_ -]?(filter|policy|management)|safety (system|filter|settings)|prohibited[_ ]content|moderation|flagged/i;
const NO_MONEY =
  /insufficient[_ ](quota|balance|funds|credits?)|billing|exceeded your current quota|payment required|credit balance|out of credits/i;
/** Groq refuses a request for what its own model made of it. */
const SLIPPED = /\b(tool_use_failed|output_parse_failed)\b/;
const NETWORK_CODE =
  /^(ECONNRESET|ECONNREFUSED|ECONNABORTED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EPROTO|UND_ERR_(SOCKET|CONNECT_TIMEOUT|HEADERS_TIMEOUT|BODY_TIMEOUT|CLOSED|DESTROYED|INFO|RES_CONTENT_LENGTH_MISMATCH|REQ_RETRY|PRX_TLS|ABORTED)|HPE_.*)$/;
const UNREACHABLE = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const CERTIFICATE_CODE = /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|ERR_TLS/;

/** Any fault of a provider as the kernel knows it: a kind, the provider's own words without secrets, how long to wait. */
export function toProviderError(error: unknown, context: FaultContext): ProviderError {
  const known = knownFault(error);
  if (known !== undefined) return known;
  const tell = (
    kind: ProviderErrorKind,
    message: string,
    details: { status?: number; retryAfterMs?: number; unreachable?: boolean } = {},
  ): ProviderError => new ProviderError(context.provider, kind, context.redact(message), details);

  const code = networkCode(error);
  // A broken connection may come with the status of the answer that it broke.
  if (code !== undefined) {
    if (CERTIFICATE_CODE.test(code)) return tell("protocol", `the connection is not trusted (${code})`);
    return tell("network", networkMessage(error, code), { unreachable: UNREACHABLE.test(code) });
  }
  if (isNamed(error, "AI_APICallError") && bag(error).statusCode === 200) {
    const body = bag(error).responseBody;
    return tell("protocol", typeof body === "string" ? whyUnreadable(body) : "the answer could not be read");
  }
  if (isNamed(error, "AI_JSONParseError") || isNamed(error, "AI_TypeValidationError")) {
    const garbled = isNamed(error, "AI_JSONParseError");
    const value = garbled ? parsed(bag(error).text) : bag(error).value;
    const inside = bag(value).error === undefined ? undefined : faultOf(value);
    // Half a chunk may be whole the next time; one of a form that the package does not know never is.
    if (inside === undefined) return tell(garbled ? "server" : "protocol", "a malformed chunk in the answer");
    return tell(kindOf(inside), inside.message);
  }
  if (isNamed(error, "AI_InvalidResponseDataError") || isNamed(error, "AI_EmptyResponseBodyError")) {
    return /finish reason/.test(message(error))
      ? tell("network", "the answer ended before it was finished")
      : tell("protocol", message(error));
  }
  if (isNamed(error, "AI_UnsupportedFunctionalityError")) return tell("bad_request", message(error));
  if (isNamed(error, "AI_NoSuchModelError")) return tell("not_found", message(error));
  if (isNamed(error, "AI_LoadAPIKeyError")) return tell("authentication", message(error));

  const fault = faultOf(error);
  if (SLIPPED.test(fault.words)) return UNREADABLE_CALL.toError(context, fault.said ?? fault.message, fault.status);
  const details: { status?: number; retryAfterMs?: number } = {};
  if (fault.status !== undefined) details.status = fault.status;
  const wait = retryAfterMs(fault.headers) ?? fault.waitMs;
  if (wait !== undefined) details.retryAfterMs = wait;
  return tell(kindOf(fault), fault.message, details);
}

/** The answer is no stream of chunks: a page of a proxy, a log-in form, a wrong URL. */
export function whyUnreadable(body: string): string {
  if (looksLikeHtml(body)) return htmlMessage(body);
  const text = body.trim();
  return text === "" ? "an empty answer" : `an answer that is no event stream: ${text.slice(0, 200)}`;
}

export function looksLikeHtml(body: string): boolean {
  return /^\s*<(!doctype|html|head|body|\?xml)/i.test(body);
}

function htmlMessage(body: string): string {
  const title = /<title[^>]*>([^<]{1,120})/i.exec(body)?.[1]?.replace(/\s+/g, " ").trim();
  return `an HTML page instead of an API answer${title ? ` ("${title}")` : ""}; check base_url and the network`;
}

function kindOf({ status, message, words, thrown }: Fault): ProviderErrorKind {
  const all = `${words} ${message}`;
  const early =
    status === undefined || status === 400 || status === 413 || status === 422 || status === 429 || status >= 500;
  if (early && CONTEXT_LENGTH.test(all) && !/tokens per (min|day)|per minute.{0,40}try again/i.test(message))
    return "context_length";
  if (status === undefined) return kindOfWords(all) ?? (thrown ? "protocol" : "server");
  if (
    NO_MONEY.test(words) ||
    status === 402 ||
    (status === 429 && NO_MONEY.test(message) && !/per (minute|day)/i.test(message))
  )
    return "permission";
  if (status === 401) return "authentication";
  if (status === 403) return FILTERED.test(all) ? "content_filter" : "permission";
  if (status === 404) return "not_found";
  if (status === 408) return "timeout";
  if (status === 413) return "context_length";
  if (status === 429) return "rate_limit";
  if (status === 503 || status === 529 || /overloaded/i.test(words)) return "overloaded";
  if (status >= 500 || status === 409 || status === 425) return "server";
  // Gemini says 400 for a key that it does not know.
  if (/api[_ ]key[_ ](not valid|invalid)|invalid[_ ]api[_ ]key|API_KEY_INVALID/i.test(all)) return "authentication";
  if (status >= 400) return FILTERED.test(all) && !/invalid/i.test(words) ? "content_filter" : "bad_request";
  return "protocol";
}

/** An error in mid-stream has no status of its own; one without known words is the server's, which had begun to answer. */
function kindOfWords(all: string): ProviderErrorKind | undefined {
  if (NO_MONEY.test(all)) return "permission";
  if (/overloaded|unavailable|capacity/i.test(all)) return "overloaded";
  if (/rate[_ ]?limit|too many requests|resource_exhausted/i.test(all)) return "rate_limit";
  if (/authentication|unauthorized|invalid[_ ]api[_ ]key/i.test(all)) return "authentication";
  if (/permission|forbidden/i.test(all)) return "permission";
  if (/time[_ ]?out|timed out|deadline/i.test(all)) return "timeout";
  if (FILTERED.test(all)) return "content_filter";
  if (/not_found|does not exist/i.test(all)) return "not_found";
  if (/server|internal|api_error/i.test(all)) return "server";
  if (/invalid|bad[_ ]request/i.test(all)) return "bad_request";
  return undefined;
}

function faultOf(error: unknown): Fault {
  const source = bag(error);
  const headers = bag(source.responseHeaders) as Record<string, string>;
  const body = typeof source.responseBody === "string" ? source.responseBody : "";
  let status = typeof source.statusCode === "number" ? source.statusCode : undefined;
  const inner = parsed(body) ?? (error instanceof Error ? source.data : error);
  const found = describe(inner);
  // OpenRouter and others put the status of who is behind them into the body of a 200.
  if ((status === undefined || status === 200) && found.code !== undefined && found.code >= 400 && found.code < 600)
    status = found.code;
  let text = found.message;
  if (text === undefined && looksLikeHtml(body)) text = htmlMessage(body);
  if (text === undefined && body.trim() !== "" && parsed(body) === undefined) text = body.trim();
  if (text === undefined && error instanceof Error && message(error) !== "") text = message(error);
  if (text === undefined && typeof error === "string") text = error;
  text ??= status === undefined ? "an error without a message" : (STATUS_TEXT[status] ?? "an error without a message");
  return {
    status,
    message: text,
    words: found.words,
    headers,
    waitMs: retryDelayMs(inner),
    said: found.said,
    thrown: error instanceof Error,
  };
}

const STATUS_TEXT: Readonly<Record<number, string>> = {
  400: "the request was refused",
  401: "the key was refused",
  403: "not allowed",
  404: "not found; check base_url and the model",
  408: "timed out",
  413: "the request is too large",
  429: "too many requests",
  500: "internal error",
  502: "bad gateway",
  503: "unavailable",
  504: "gateway timed out",
  529: "overloaded",
};

/** Message and words of an error body in any of the shapes that providers use. */
function describe(
  body: unknown,
): Pick<Fault, "words" | "said"> & { message: string | undefined; code: number | undefined } {
  if (typeof body === "string")
    return { message: body.trim() || undefined, words: "", code: undefined, said: undefined };
  const top = bag(Array.isArray(body) ? body[0] : body);
  const error = top.error ?? bag(Array.isArray(top.errors) ? top.errors[0] : undefined).message ?? top;
  const inner = bag(error);
  const nested = bag(inner.metadata);
  const texts: (string | undefined)[] = [
    typeof error === "string" ? error : undefined,
    asText(inner.message),
    asText(bag(inner.error).message),
    asText(top.message),
    asText(top.detail),
    asText(inner.detail),
    asText(bag(inner.response).error),
  ];
  let text = texts.find((candidate) => candidate !== undefined && candidate !== "");
  // OpenRouter: "Provider returned error", with the truth in the metadata.
  const raw = asText(nested.raw);
  if (raw !== undefined && text !== undefined && /^provider returned error/i.test(text)) {
    text = `${text}: ${describe(parsed(raw) ?? raw).message ?? raw}`;
  }
  const words = [inner.type, inner.code, inner.status, top.type, top.code, top.error_type]
    .filter((word) => typeof word === "string" || typeof word === "number")
    .join(" ");
  const code = [inner.code, inner.status_code, top.code, top.status]
    .map(Number)
    .find((value) => Number.isInteger(value) && value >= 100);
  return { message: text, words, code, said: asText(inner.failed_generation) ?? asText(top.failed_generation) };
}

function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) {
    // FastAPI: [{ loc: [...], msg: "..." }]
    const texts = value.map((entry) => {
      const { loc, msg } = bag(entry);
      return [...(Array.isArray(loc) ? loc.map(String) : []), ...(typeof msg === "string" ? [msg] : [])].join(" ");
    });
    return texts.join("; ") || undefined;
  }
  return undefined;
}

function retryDelayMs(body: unknown): number | undefined {
  const error = bag(bag(Array.isArray(body) ? body[0] : body).error);
  const delays = (Array.isArray(error.details) ? error.details : []).map((detail) => bag(detail).retryDelay);
  const seconds = delays
    .map((delay) => (typeof delay === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined))
    .find((found) => found !== undefined);
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000);
}

/** `retry-after` in seconds or as a date, `retry-after-ms`; in ms. */
export function retryAfterMs(
  headers: Readonly<Record<string, string | undefined>>,
  now = Date.now(),
): number | undefined {
  const ms = Number(headers["retry-after-ms"]);
  if (headers["retry-after-ms"] !== undefined && Number.isFinite(ms) && ms >= 0) return Math.ceil(ms);
  const value = headers["retry-after"]?.trim();
  if (value === undefined || value === "") return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return seconds >= 0 ? Math.ceil(seconds * 1000) : undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

function networkCode(error: unknown): string | undefined {
  const seen = new Set<unknown>();
  let current: unknown = error;
  while (current instanceof Error && !seen.has(current)) {
    seen.add(current);
    const { code } = current as { code?: unknown };
    if (typeof code === "string" && (NETWORK_CODE.test(code) || CERTIFICATE_CODE.test(code))) return code;
    // undici's word for a connection that ended within the body; its cause may be a plain Error.
    if (current instanceof TypeError && /^(terminated|fetch failed)$/.test(current.message)) {
      return networkCode(current.cause) ?? "connection lost";
    }
    if (current instanceof AggregateError) {
      const first = networkCode(current.errors[0]);
      if (first !== undefined) return first;
    }
    current = current.cause;
  }
  return undefined;
}

function networkMessage(error: unknown, code: string): string {
  const url = bag(error).url;
  const status = bag(error).statusCode;
  const where = typeof url === "string" && URL.canParse(url) ? ` to ${new URL(url).host}` : "";
  if (code === "ECONNREFUSED") return `no connection${where} (${code}); is the server running?`;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN")
    return `no connection${where} (${code}); check base_url and the network`;
  return status === undefined ? `no connection${where} (${code})` : `the connection${where} broke (${code})`;
}

/** A fault that is told already, also where a package has put its own around it. */
function knownFault(error: unknown): ProviderError | undefined {
  let current: unknown = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    if (hasCode(current, "provider")) return current;
    current = current.cause;
  }
  return undefined;
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function bag(value: unknown): Bag {
  return typeof value === "object" && value !== null ? (value as Bag) : {};
}

function parsed(text: unknown): unknown {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
