import type { IncomingMessage } from "node:http";
import type { Agent, Logger } from "gantry";
import type { Context } from "koa";
import type * as v from "valibot";
import type { KoaHttpOptions } from "./options.js";
import { JSON_TYPE } from "./headers.js";
import type { ResponseBody } from "./response-body.js";

export interface ApiParts {
  agent: Agent;
  options: KoaHttpOptions;
  /** Headers of every response. */
  headers: Readonly<Record<string, string>>;
  logger: Logger;
  /** Names of the headers that authenticate clients. */
  authHeaderNames: readonly string[];
  /** Whether the request's headers prove that a person sent it. */
  isOfPerson: (request: IncomingMessage) => boolean;
  /** Whether the port accepts only clients of this machine. */
  isLoopback: () => boolean;
  /** Counts a stream of the port and returns the function that releases it; undefined if there are too many. */
  takeStream: () => (() => void) | undefined;
  /** Aborts when the server begins to stop: streams that only watch end then. */
  stopping: AbortSignal;
  /** Aborts when runs must end. */
  shutdown: AbortSignal;
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
