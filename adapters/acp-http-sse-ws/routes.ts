import type { IncomingMessage } from "node:http";
import { isJsonType } from "gantry/http";
import type Koa from "koa";
import { METHODS, parseFrame, readSessionId, type ClientFrame } from "../acp-shared/index.js";
import { readText } from "./body.js";
import type { ClientConnection } from "./client-connection.js";
import {
  createInvalidMessageRefusal,
  createInvalidConnectionRefusal,
  createInvalidSessionRefusal,
  createMethodNotAllowedRefusal,
  createMissingConnectionRefusal,
  createNotAcceptableRefusal,
  createNotJsonRefusal,
  createSessionMismatchRefusal,
  createUnknownConnectionRefusal,
} from "./errors.js";
import type { AcpHttpOptions } from "./options.js";
import {
  acceptsStream,
  CONNECTION_HEADER,
  isConnectionId,
  isSessionId,
  JSON_MEDIA_TYPE,
  SESSION_HEADER,
} from "./wire.js";

/** The clients of a transport. */
export interface Clients {
  /** The client with this connection id; undefined for an unknown id, and for the client of another user. */
  get(id: string, request: IncomingMessage): ClientConnection | undefined;
  /** Creates the connection of the client that sent the request. Throws `HttpRefusal` if there are too many. */
  openConnection(request: IncomingMessage): ClientConnection;
  /** Reserves a stream slot; the returned function releases it. Throws `HttpRefusal` if there are too many streams. */
  reserveStream(): () => void;
  /** Removes a client and closes its connection. */
  removeClient(client: ClientConnection): void;
}

/** Creates the handler of all requests. The checks have the order of the specification. Rejects with `HttpRefusal`. */
export function createRoutes(clients: Clients, options: AcpHttpOptions): Koa.Middleware {
  return async (context) => {
    const { req } = context;
    switch (req.method) {
      case "POST": {
        if (!isJsonType(req.headers["content-type"])) throw createNotJsonRefusal();
        const client = findClient(req, clients);
        const frame = await readFrame(req, options);
        if (client) forwardFrame(client, frame, readSessionHeader(req));
        else return initializeClient(context, clients, frame);
        break;
      }
      case "GET": {
        if (!acceptsStream(req.headers.accept)) throw createNotAcceptableRefusal();
        const client = findClient(req, clients);
        if (!client) throw createMissingConnectionRefusal();
        const sessionId = readSessionHeader(req);
        const releaseStream = clients.reserveStream();
        context.respond = false;
        client.openStream(sessionId, context.res, releaseStream);
        return;
      }
      case "DELETE": {
        const client = findClient(req, clients);
        if (!client) throw createMissingConnectionRefusal();
        clients.removeClient(client);
        break;
      }
      default:
        throw createMethodNotAllowedRefusal();
    }
    context.status = 202;
    context.body = "";
    context.remove("Content-Type");
  };
}

/** The client of the request's connection id; undefined without the header. Throws `HttpRefusal` for an unknown id. */
function findClient(request: IncomingMessage, clients: Clients): ClientConnection | undefined {
  const id = readHeader(request, CONNECTION_HEADER);
  if (id === undefined) return undefined;
  if (!isConnectionId(id)) throw createInvalidConnectionRefusal();
  const client = clients.get(id, request);
  if (!client) throw createUnknownConnectionRefusal();
  client.recordRequest();
  return client;
}

function readSessionHeader(request: IncomingMessage): string | undefined {
  const sessionId = readHeader(request, SESSION_HEADER);
  if (sessionId !== undefined && !isSessionId(sessionId)) throw createInvalidSessionRefusal();
  return sessionId;
}

async function readFrame(
  request: IncomingMessage,
  options: AcpHttpOptions,
): Promise<Exclude<ClientFrame, { kind: "invalid" }>> {
  const frame = parseFrame(await readText(request, options.maxBodyBytes), options.jsonDepth);
  if (frame.kind === "invalid") throw createInvalidMessageRefusal(frame.errorResponse);
  return frame;
}

function forwardFrame(
  client: ClientConnection,
  frame: Exclude<ClientFrame, { kind: "invalid" }>,
  sessionId: string | undefined,
): void {
  const frameSessionId = "params" in frame ? readSessionId(frame.params) : undefined;
  if (sessionId !== undefined && frameSessionId !== undefined && sessionId !== frameSessionId)
    throw createSessionMismatchRefusal();
  // The connection may have closed while the body was read.
  if (client.isClosed) throw createUnknownConnectionRefusal();
  client.acp.receiveFrame(frame, sessionId);
}

async function initializeClient(context: Koa.Context, clients: Clients, frame: ClientFrame): Promise<void> {
  if (frame.kind !== "request" || frame.method !== METHODS.initialize) throw createMissingConnectionRefusal();
  const client = clients.openConnection(context.req);
  const answer = await client.acp.handleRequest(frame);
  if ("error" in answer) await client.close(1000, "not initialized");
  else context.set(CONNECTION_HEADER, client.id);
  context.set("Content-Type", JSON_MEDIA_TYPE);
  context.body = JSON.stringify(answer);
}

function readHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(", ") : value;
}
