import type { IncomingMessage } from "node:http";
import { isJsonType } from "gantry/http";
import type Koa from "koa";
import { METHODS, parseFrame, sessionIdOf, type ClientFrame } from "../acp-shared/index.js";
import { readText } from "./body.js";
import type { ClientConnection } from "./client-connection.js";
import {
  badMessage,
  invalidConnection,
  invalidSession,
  methodNotAllowed,
  missingConnection,
  notAcceptable,
  notJson,
  otherSession,
  unknownConnection,
} from "./errors.js";
import type { AcpHttpOptions } from "./options.js";
import { acceptsStream, CONNECTION_HEADER, isConnectionId, isSessionId, JSON_TYPE, SESSION_HEADER } from "./wire.js";

export interface Clients {
  get(id: string): ClientConnection | undefined;
  /** Creates the connection of a client at an IP address. Throws `HttpRefusal` if there are too many. */
  open(address: string): ClientConnection;
  /** Counts an open stream; call the returned function when it closes. Throws `HttpRefusal` if there are too many. */
  countStream(): () => void;
  /** Removes a client and closes its connection. */
  dismiss(client: ClientConnection): void;
}

/** Handles requests. The order of the checks is the one of the specification. Throws `HttpRefusal`. */
export function routes(clients: Clients, options: AcpHttpOptions): Koa.Middleware {
  return async (context) => {
    const { req } = context;
    switch (req.method) {
      case "POST": {
        if (!isJsonType(req.headers["content-type"])) throw notJson();
        const client = clientOf(req, clients);
        const frame = await readFrame(req, options);
        if (client) forward(client, frame, sessionOf(req));
        else return initialize(context, clients, frame);
        break;
      }
      case "GET": {
        if (!acceptsStream(req.headers.accept)) throw notAcceptable();
        const client = clientOf(req, clients);
        if (!client) throw missingConnection();
        const sessionId = sessionOf(req);
        const closed = clients.countStream();
        context.respond = false;
        client.attach(sessionId, context.res, closed);
        return;
      }
      case "DELETE": {
        const client = clientOf(req, clients);
        if (!client) throw missingConnection();
        clients.dismiss(client);
        break;
      }
      default:
        throw methodNotAllowed();
    }
    context.status = 202;
    context.body = "";
    context.remove("Content-Type");
  };
}

/** The client of the request's connection id; undefined without one. */
function clientOf(request: IncomingMessage, clients: Clients): ClientConnection | undefined {
  const id = header(request, CONNECTION_HEADER);
  if (id === undefined) return undefined;
  if (!isConnectionId(id)) throw invalidConnection();
  const client = clients.get(id);
  if (!client) throw unknownConnection();
  client.touch();
  return client;
}

function sessionOf(request: IncomingMessage): string | undefined {
  const sessionId = header(request, SESSION_HEADER);
  if (sessionId !== undefined && !isSessionId(sessionId)) throw invalidSession();
  return sessionId;
}

async function readFrame(
  request: IncomingMessage,
  options: AcpHttpOptions,
): Promise<Exclude<ClientFrame, { kind: "invalid" }>> {
  const frame = parseFrame(await readText(request, options.maxBodyBytes), options.jsonDepth);
  if (frame.kind === "invalid") throw badMessage(frame.answer);
  return frame;
}

function forward(
  client: ClientConnection,
  frame: Exclude<ClientFrame, { kind: "invalid" }>,
  sessionId: string | undefined,
): void {
  const named = "params" in frame ? sessionIdOf(frame.params) : undefined;
  if (sessionId !== undefined && named !== undefined && sessionId !== named) throw otherSession();
  // The connection was closed while the body was read.
  if (client.closed) throw unknownConnection();
  client.acp.receiveFrame(frame, sessionId);
}

async function initialize(context: Koa.Context, clients: Clients, frame: ClientFrame): Promise<void> {
  if (frame.kind !== "request" || frame.method !== METHODS.initialize) throw missingConnection();
  const client = clients.open(context.req.socket.remoteAddress ?? "");
  const answer = await client.acp.call(frame);
  if ("error" in answer) await client.close(1000, "not initialized");
  else context.set(CONNECTION_HEADER, client.id);
  context.set("Content-Type", JSON_TYPE);
  context.body = JSON.stringify(answer);
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(", ") : value;
}
