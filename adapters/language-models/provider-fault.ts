import { bag, parsed } from "./json.js";
import { htmlMessage, looksLikeHtml } from "./unreadable.js";

/** What a thrown thing or an `error` part tells, wherever it keeps it. */
export interface Fault {
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

/** What an error tells, wherever its maker keeps it. */
export function faultOf(error: unknown): Fault {
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
  if (text === undefined && error instanceof Error && error.message !== "") text = error.message;
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
