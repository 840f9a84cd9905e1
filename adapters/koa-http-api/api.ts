import type { IncomingMessage } from "node:http";
import type { Agent, Logger } from "gantry";
import type { Context } from "koa";
import type * as v from "valibot";
import type { KoaHttpOptions } from "./options.js";
import { JSON_TYPE } from "./headers.js";
import type { ResponseBody } from "./shapes.js";

export interface ApiDependencies {
  agent: Agent;
  options: KoaHttpOptions;
  /** Headers of every response, by name. */
  headers: Readonly<Record<string, string>>;
  logger: Logger;
  /** Names of the headers that authenticate clients. */
  authHeaderNames: readonly string[];
  /** Whether the request's headers prove that a person sent it. */
  isFromPerson: (request: IncomingMessage) => boolean;
  /** Whether the HTTP listener accepts only clients of this machine. */
  isLoopback: () => boolean;
  /**
   * Reserves a stream slot of the HTTP listener. Returns the function that releases the slot; undefined if none is
   * free.
   */
  reserveStreamSlot: () => (() => void) | undefined;
  /** Whether requests that start work are refused, because the event loop is late. */
  isOverloaded: () => boolean;
  /** Aborts when the server begins to stop. Streams that only watch a session then end. */
  stopSignal: AbortSignal;
  /** Aborts when runs must end. */
  shutdownSignal: AbortSignal;
}

/**
 * Returns a controller that aborts with a new reason if the client disconnects before the response is complete; at once
 * if the client has disconnected already.
 */
export function createDisconnectController({ res }: Context, createReason?: () => unknown): AbortController {
  const controller = new AbortController();
  const abortIfIncomplete = () => res.writableFinished || controller.abort(createReason?.());
  if (res.closed) abortIfIncomplete();
  else res.once("close", abortIfIncomplete);
  return controller;
}

/**
 * Aborts a controller with `signal`, until the returned function is called. `AbortSignal.any` is not used: its result
 * stays registered at signals that live as long as the server.
 */
export function abortWith(controller: AbortController, signal: AbortSignal): () => void {
  const abort = () => controller.abort(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return () => signal.removeEventListener("abort", abort);
}

/** Answers with JSON. The compiler rejects a call without the type argument: write `sendJson<typeof Run>(...)`. */
export function sendJson<Shape extends v.GenericSchema = v.NeverSchema<undefined>>(
  ctx: Context,
  body: NoInfer<ResponseBody<Shape>>,
  status = 200,
): void {
  ctx.status = status;
  ctx.set("Content-Type", JSON_TYPE);
  ctx.body = JSON.stringify(body);
}
