import {
  AskConflictError,
  BusyError,
  DisconnectedError,
  ApiError,
  NotFoundError,
  UnauthorizedError,
  UnavailableError,
} from "gantry/client";

/** The error as a message for the user. */
export function toErrorMessage(error: unknown): string {
  if (error instanceof DisconnectedError) return "The server is unavailable.";
  if (error instanceof UnauthorizedError)
    return "The server requires a login. Run `gantry console` to get a login link.";
  if (error instanceof ApiError && /^(person_required|namespace_refused|unseen_refused)$/.test(error.code))
    return "This action needs a login by a person: the server cannot distinguish this page from a command of its agent. Run `gantry console` to get a login link.";
  if (error instanceof AskConflictError) return "Another client has already answered this question.";
  if (error instanceof BusyError) return "A run is active in this session.";
  if (error instanceof ApiError && error.code === "rewind_disabled")
    return "This server does not permit rewind, undo and fork: session.rewind is false in its config.";
  if (error instanceof NotFoundError) return `Not found: ${error.message}`;
  if (error instanceof UnavailableError) return `The server cannot do that now: ${error.message}`;
  if (error instanceof ApiError || error instanceof Error) return error.message;
  return String(error);
}
