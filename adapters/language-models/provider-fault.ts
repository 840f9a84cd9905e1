import { asObject, parseJsonObject } from "./json.js";

/** Maximum characters of a body that are searched for a title. */
const MAX_SEARCHED_CHARACTERS = 256 * 1024;
const MAX_EXCERPT_CHARACTERS = 200;

/** The data of an error, or of an `error` part of a stream. */
export interface ProviderFault {
  status: number | undefined;
  message: string;
  /** Machine-readable `type` and `code` fields of the body, joined by spaces. */
  typeAndCode: string;
  headers: Readonly<Record<string, string>>;
  /** Delay before a retry from the body, as Google sends it, in ms. */
  waitMs: number | undefined;
  /** The model's output that the provider rejected, if it is reported. */
  modelOutput: string | undefined;
  /** Whether the error was thrown, so that its cause may be outside of the server. */
  isThrown: boolean;
}

/** Reads the data of an error, in any format. */
export function faultOf(error: unknown): ProviderFault {
  const source = asObject(error);
  const headers = asObject(source.responseHeaders) as Record<string, string>;
  const body = typeof source.responseBody === "string" ? source.responseBody : "";
  let status = typeof source.statusCode === "number" ? source.statusCode : undefined;
  const errorBody = parseJsonObject(body) ?? (error instanceof Error ? source.data : error);
  const description = describeBody(errorBody);
  // OpenRouter and others put the status of the upstream provider into the body of a 200.
  if (
    (status === undefined || status === 200) &&
    description.code !== undefined &&
    description.code >= 400 &&
    description.code < 600
  )
    status = description.code;
  let text = description.message;
  if (text === undefined && looksLikeHtml(body)) text = describeHtml(body);
  if (text === undefined && body.trim() !== "" && parseJsonObject(body) === undefined) text = body.trim();
  if (text === undefined && error instanceof Error && error.message !== "") text = error.message;
  if (text === undefined && typeof error === "string") text = error;
  text ??= status === undefined ? "an error without a message" : (STATUS_TEXT[status] ?? "an error without a message");
  return {
    status,
    message: text,
    typeAndCode: description.typeAndCode,
    headers,
    waitMs: readRetryDelayMs(errorBody),
    modelOutput: description.modelOutput,
    isThrown: error instanceof Error,
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

/** Reads an error body, in any format of the providers. */
function describeBody(
  body: unknown,
): Pick<ProviderFault, "typeAndCode" | "modelOutput"> & { message: string | undefined; code: number | undefined } {
  if (typeof body === "string")
    return { message: body.trim() || undefined, typeAndCode: "", code: undefined, modelOutput: undefined };
  const bodyFields = asObject(Array.isArray(body) ? body[0] : body);
  const error =
    bodyFields.error ??
    asObject(Array.isArray(bodyFields.errors) ? bodyFields.errors[0] : undefined).message ??
    bodyFields;
  const errorFields = asObject(error);
  const metadata = asObject(errorFields.metadata);
  const texts: (string | undefined)[] = [
    typeof error === "string" ? error : undefined,
    toMessage(errorFields.message),
    toMessage(asObject(errorFields.error).message),
    toMessage(bodyFields.message),
    toMessage(bodyFields.detail),
    toMessage(errorFields.detail),
    toMessage(asObject(errorFields.response).error),
  ];
  let text = texts.find((candidate) => candidate !== undefined && candidate !== "");
  // OpenRouter: "Provider returned error"; the actual error is in the metadata.
  const raw = toMessage(metadata.raw);
  if (raw !== undefined && text !== undefined && /^provider returned error/i.test(text)) {
    text = `${text}: ${describeBody(parseJsonObject(raw) ?? raw).message ?? raw}`;
  }
  // Xiaomi: "Param Incorrect"; the reason is a sentence in `param`.
  const param = toMessage(errorFields.param);
  if (param !== undefined && /\s/.test(param)) text = text === undefined ? param : `${text}: ${param}`;
  const typeAndCode = [
    errorFields.type,
    errorFields.code,
    errorFields.status,
    bodyFields.type,
    bodyFields.code,
    bodyFields.error_type,
  ]
    .filter((fieldValue) => typeof fieldValue === "string" || typeof fieldValue === "number")
    .join(" ");
  const code = [errorFields.code, errorFields.status_code, bodyFields.code, bodyFields.status]
    .map(Number)
    .find((value) => Number.isInteger(value) && value >= 100);
  return {
    message: text,
    typeAndCode,
    code,
    modelOutput: toMessage(errorFields.failed_generation) ?? toMessage(bodyFields.failed_generation),
  };
}

function toMessage(value: unknown): string | undefined {
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

function readRetryDelayMs(body: unknown): number | undefined {
  const error = asObject(asObject(Array.isArray(body) ? body[0] : body).error);
  const delays = (Array.isArray(error.details) ? error.details : []).map((detail) => asObject(detail).retryDelay);
  const seconds = delays
    .map((delay) => (typeof delay === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined))
    .find((secondsText) => secondsText !== undefined);
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000);
}

/** Delay in ms from `retry-after` (seconds or date) or `retry-after-ms`; undefined without a valid header. */
export function readRetryAfterMs(
  headers: Readonly<Record<string, string | undefined>>,
  nowMs = Date.now(),
): number | undefined {
  const delayMs = Number(headers["retry-after-ms"]);
  if (headers["retry-after-ms"] !== undefined && Number.isFinite(delayMs) && delayMs >= 0) return Math.ceil(delayMs);
  const value = headers["retry-after"]?.trim();
  if (value === undefined || value === "") return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return seconds >= 0 ? Math.ceil(seconds * 1000) : undefined;
  const retryAtMs = Date.parse(value);
  return Number.isNaN(retryAtMs) ? undefined : Math.max(0, retryAtMs - nowMs);
}

/** Describes a body that is not an event stream, such as the page of a proxy or a login form. */
export function describeUnreadable(fullBody: string): string {
  const body = fullBody.slice(0, MAX_SEARCHED_CHARACTERS);
  if (looksLikeHtml(body)) return describeHtml(body);
  const text = body.trim();
  return text === ""
    ? "an empty answer"
    : `an answer that is not an event stream: ${text.slice(0, MAX_EXCERPT_CHARACTERS)}`;
}

/** Whether a body is an HTML page. */
export function looksLikeHtml(body: string): boolean {
  return /^\s*<(!doctype|html|head|body|\?xml)/i.test(body);
}

/** Error message for an HTML page. */
function describeHtml(body: string): string {
  const title = /<title[^>]*>([^<]{1,120})/i.exec(body)?.[1]?.replace(/\s+/g, " ").trim();
  return `an HTML page instead of an API answer${title ? ` ("${title}")` : ""}; check base_url and the network`;
}
