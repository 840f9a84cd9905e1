import {
  ApiError,
  NotFoundError,
  UnauthorizedError,
  type ApiAsk,
  type ApiSession,
  type ConnectionState,
  type WatchedEvent,
} from "gantry/client";

/** Messages of a window to the worker that holds the connection. */
export type WindowMessage =
  /** The first message. `headers`: the window's credentials. */
  | { type: "open"; headers: Record<string, string> }
  /** Name of a Web Lock that the window holds while it exists. */
  | { type: "lock"; name: string }
  | { type: "watch"; key: number; id: string; after?: string | undefined; afterSeq?: number | undefined }
  | { type: "unwatch"; key: number }
  | { type: "close" };

/** Messages of the worker to a window. `key`: the watch of the window; undefined for the connection itself. */
export type WorkerMessage =
  | { type: "ready" }
  | { type: "event"; key: number; event: WatchedEvent }
  | { type: "end"; key: number; error?: PortableError | undefined }
  | { type: "connection"; key?: number | undefined; state: ConnectionState; error?: PortableError | undefined }
  | { type: "asks"; asks: readonly ApiAsk[] }
  | { type: "session"; session: ApiSession }
  | { type: "session_removed"; id: string };

/** Fields of an `ApiError`, whose class a message loses. */
export type PortableError = Pick<ApiError, "message" | "code" | "status" | "retryAfter">;

export function toPortableError(error: unknown): PortableError {
  if (!(error instanceof ApiError)) return { message: String(error), code: "internal", status: 500, retryAfter: 0 };
  const { message, code, status, retryAfter } = error;
  return { message, code, status, retryAfter };
}

export function fromPortableError({ message, ...fields }: PortableError): ApiError {
  const ErrorClass = { 401: UnauthorizedError, 404: NotFoundError }[fields.status] ?? ApiError;
  return new ErrorClass(message, fields);
}
