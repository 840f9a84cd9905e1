import type { IncomingMessage } from "node:http";
import type { Agent, Logger } from "gantry";
import type { Context } from "koa";
import type * as v from "valibot";
import type { KoaHttpOptions } from "./options.js";
import { JSON_TYPE } from "./headers.js";
import type { ResponseBody } from "./response-body.js";

export interface ApiDependencies {
  agent: Agent;
  options: KoaHttpOptions;
  /** Headers of every response. */
  headers: Readonly<Record<string, string>>;
  logger: Logger;
  /** Names of the headers that authenticate clients. */
  authHeaderNames: readonly string[];
  /** Whether the request's headers prove that a person sent it. */
  isFromPerson: (request: IncomingMessage) => boolean;
  /** Whether the HTTP listener accepts only clients of this machine. */
  isLoopback: () => boolean;
  /** Reserves a stream slot of the HTTP listener; returns the function that releases it. Undefined: no slot is free. */
  reserveStreamSlot: () => (() => void) | undefined;
  /** Aborts when the server begins to stop: this ends streams that only watch. */
  stopSignal: AbortSignal;
  /** Aborts when runs must end. */
  shutdownSignal: AbortSignal;
}

/** Answers with JSON. The type argument is required to compile: `send<typeof Run>(...)`. */
export function send<Shape extends v.GenericSchema = v.NeverSchema<undefined>>(
  ctx: Context,
  body: NoInfer<ResponseBody<Shape>>,
  status = 200,
): void {
  ctx.status = status;
  ctx.set("Content-Type", JSON_TYPE);
  ctx.body = JSON.stringify(body);
}
