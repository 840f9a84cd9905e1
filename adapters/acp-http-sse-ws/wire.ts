/** Names the connection that a request belongs to; given by the answer to `initialize`. */
export const CONNECTION_HEADER = "Acp-Connection-Id";
/** Names the session that a stream or a message belongs to. */
export const SESSION_HEADER = "Acp-Session-Id";

export const JSON_TYPE = "application/json";
export const STREAM_TYPE = "text/event-stream";

/** Where clients are told to connect; any other path works too. */
export const PATH = "/acp";

const ID = /^[A-Za-z0-9_-]{1,200}$/;
const SESSION_ID_LENGTH = 200;

/** Whether a header's value can be a connection's id at all. */
export function isConnectionId(value: string): boolean {
  return ID.test(value);
}

/** Session ids are the agent's own or a stored session's; nothing longer was ever given out. */
export function isSessionId(value: string): boolean {
  return value !== "" && value.length <= SESSION_ID_LENGTH;
}

/** Whether an `Accept` header names the stream's media type. */
export function acceptsStream(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) => {
    const [type, ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === STREAM_TYPE && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** One server-sent event. JSON holds no line breaks, so one `data` line is enough. */
export function sseEvent(json: string): string {
  return `data: ${json}\n\n`;
}

/** Keeps proxies and clients from taking silence for an end. */
export const SSE_COMMENT = ":\n\n";
