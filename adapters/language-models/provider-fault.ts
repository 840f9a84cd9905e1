import { asObject, parseJsonObject } from "./json.js";
import { htmlMessage, looksLikeHtml } from "./unreadable.js";

/** The data of an error or of an `error` part. */
export interface ProviderFault {
  status: number | undefined;
  message: string;
  /** Machine-readable words: `type` and `code` of the body. */
  words: string;
  headers: Readonly<Record<string, string>>;
  /** Delay before a retry from the body, as Google sends it, in ms. */
  waitMs: number | undefined;
  /** The model's output that the provider rejected, if it is reported. */
  modelOutput: string | undefined;
  /** Whether the error was thrown, so that its cause may be outside of the server. */
  thrown: boolean;
}

/** Reads the data of an error, in any format. */
export function faultOf(error: unknown): ProviderFault {
  const source = asObject(error);
  const headers = asObject(source.responseHeaders) as Record<string, string>;
  const body = typeof source.responseBody === "string" ? source.responseBody : "";
  let status = typeof source.statusCode === "number" ? source.statusCode : undefined;
  const inner = parseJsonObject(body) ?? (error instanceof Error ? source.data : error);
  const described = describe(inner);
  // OpenRouter and others put the status of the upstream provider into the body of a 200.
  if (
    (status === undefined || status === 200) &&
    described.code !== undefined &&
    described.code >= 400 &&
    described.code < 600
  )
    status = described.code;
  let text = described.message;
  if (text === undefined && looksLikeHtml(body)) text = htmlMessage(body);
  if (text === undefined && body.trim() !== "" && parseJsonObject(body) === undefined) text = body.trim();
  if (text === undefined && error instanceof Error && error.message !== "") text = error.message;
  if (text === undefined && typeof error === "string") text = error;
  text ??= status === undefined ? "an error without a message" : (STATUS_TEXT[status] ?? "an error without a message");
  return {
    status,
    message: text,
    words: described.words,
    headers,
    waitMs: retryDelayMs(inner),
    modelOutput: described.modelOutput,
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

/** Message and words of an error body, in any format of the providers. */
function describe(
  body: unknown,
): Pick<ProviderFault, "words" | "modelOutput"> & { message: string | undefined; code: number | undefined } {
  if (typeof body === "string")
    return { message: body.trim() || undefined, words: "", code: undefined, modelOutput: undefined };
  const top = asObject(Array.isArray(body) ? body[0] : body);
  const error = top.error ?? asObject(Array.isArray(top.errors) ? top.errors[0] : undefined).message ?? top;
  const inner = asObject(error);
  const nested = asObject(inner.metadata);
  const texts: (string | undefined)[] = [
    typeof error === "string" ? error : undefined,
    asText(inner.message),
    asText(asObject(inner.error).message),
    asText(top.message),
    asText(top.detail),
    asText(inner.detail),
    asText(asObject(inner.response).error),
  ];
  let text = texts.find((candidate) => candidate !== undefined && candidate !== "");
  // OpenRouter: "Provider returned error"; the actual error is in the metadata.
  const raw = asText(nested.raw);
  if (raw !== undefined && text !== undefined && /^provider returned error/i.test(text)) {
    text = `${text}: ${describe(parseJsonObject(raw) ?? raw).message ?? raw}`;
  }
  const words = [inner.type, inner.code, inner.status, top.type, top.code, top.error_type]
    .filter((word) => typeof word === "string" || typeof word === "number")
    .join(" ");
  const code = [inner.code, inner.status_code, top.code, top.status]
    .map(Number)
    .find((value) => Number.isInteger(value) && value >= 100);
  return { message: text, words, code, modelOutput: asText(inner.failed_generation) ?? asText(top.failed_generation) };
}

function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) {
    // FastAPI: [{ loc: [...], msg: "..." }]
    const texts = value.map((entry) => {
      const { loc, msg } = asObject(entry);
      return [...(Array.isArray(loc) ? loc.map(String) : []), ...(typeof msg === "string" ? [msg] : [])].join(" ");
    });
    return texts.join("; ") || undefined;
  }
  return undefined;
}

function retryDelayMs(body: unknown): number | undefined {
  const error = asObject(asObject(Array.isArray(body) ? body[0] : body).error);
  const delays = (Array.isArray(error.details) ? error.details : []).map((detail) => asObject(detail).retryDelay);
  const seconds = delays
    .map((delay) => (typeof delay === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined))
    .find((secondsText) => secondsText !== undefined);
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000);
}

/** Delay from `retry-after` (seconds or date) or `retry-after-ms`; in ms. */
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
