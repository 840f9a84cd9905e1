import {
  AskClosedError,
  BusyError,
  DisconnectedError,
  GantryError,
  NotFoundError,
  UnauthorizedError,
  UnavailableError,
} from "gantry/client";

/** What went wrong, in people's words. */
export function wordsOf(error: unknown): string {
  if (error instanceof DisconnectedError) return "The server could not be reached.";
  if (error instanceof UnauthorizedError)
    return "The server asks who you are. Run `gantry console` for a link that lets you in.";
  if (error instanceof GantryError && /^(person_required|namespace_refused|unseen_refused)$/.test(error.code))
    return "The server cannot tell this page from a command of its agent. Run `gantry console` for a link that can do this.";
  if (error instanceof AskClosedError) return "Somebody answered this before.";
  if (error instanceof BusyError) return "A run is under way in this session.";
  if (error instanceof NotFoundError) return `It is gone: ${error.message}`;
  if (error instanceof UnavailableError) return `The server cannot do that now: ${error.message}`;
  if (error instanceof GantryError || error instanceof Error) return error.message;
  return String(error);
}
