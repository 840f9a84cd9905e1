/** Header with the connection id of a request; the answer to `initialize` contains the id. */
export const CONNECTION_HEADER = "Acp-Connection-Id";
/** Header with the session id of a stream or message. */
export const SESSION_HEADER = "Acp-Session-Id";

export const JSON_MEDIA_TYPE = "application/json";
export const STREAM_MEDIA_TYPE = "text/event-stream";

/** The advertised path; any other path works too. */
export const ADVERTISED_PATH = "/acp";

const CONNECTION_ID_PATTERN = /^[A-Za-z0-9_-]{1,200}$/;
const MAX_SESSION_ID_CHARACTERS = 200;

/** Whether a header value has the form of a connection id. */
export function isConnectionId(value: string): boolean {
  return CONNECTION_ID_PATTERN.test(value);
}

/** Whether a header value has the form of a session id. The agent never issues longer ids. */
export function isSessionId(value: string): boolean {
  return value !== "" && value.length <= MAX_SESSION_ID_CHARACTERS;
}

/** Whether an `Accept` header names the stream's media type. */
export function acceptsStream(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) => {
    const [type, ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === STREAM_MEDIA_TYPE && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** A server-sent event. JSON contains no line breaks, so one `data` line is enough. */
export function encodeEvent(json: string): string {
  return `data: ${json}\n\n`;
}

/** Prevents timeouts of silent streams in proxies and clients. */
export const SSE_COMMENT = ":\n\n";

/** Close codes of WebSockets (RFC 6455). */
export const CLOSE_CODES = { normal: 1000, goingAway: 1001, tryAgainLater: 1013 } as const;
