import type { IncomingMessage } from "node:http";
import type { Agent, Logger } from "gantry";
import type { Context } from "koa";
import type * as v from "valibot";
import type { KoaHttpOptions } from "./options.js";
import { JSON_TYPE } from "./headers.js";
import type { Told } from "./response-body.js";

export interface ApiParts {
  agent: Agent;
  options: KoaHttpOptions;
  /** Of every response. */
  headers: Readonly<Record<string, string>>;
  logger: Logger;
  /** Names of the headers by which clients prove who they are. */
  proving: readonly string[];
  /** Whether a person sent a request, as far as headers prove it. */
  isOfPerson: (request: IncomingMessage) => boolean;
  /** Whether all clients are of this machine. */
  isLoopback: () => boolean;
  /** Counts a stream of the port; undefined when there are too many. */
  takeStream: () => (() => void) | undefined;
  /** Aborts when the server begins to stop: whoever only watches may go. */
  stopping: AbortSignal;
  /** Aborts when runs must end. */
  shutdown: AbortSignal;
}

/** Answer with JSON, the one type there is. Its shape must be named to compile: `send<typeof Run>(...)`. */
export function send<Shape extends v.GenericSchema = v.NeverSchema<undefined>>(
  ctx: Context,
  body: NoInfer<Told<Shape>>,
  status = 200,
): void {
  ctx.status = status;
  ctx.set("Content-Type", JSON_TYPE);
  ctx.body = JSON.stringify(body);
}
