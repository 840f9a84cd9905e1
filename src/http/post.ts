import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect, isIP, type Socket } from "node:net";

/** Timeout for the connection and the response together. */
const RESPONSE_TIMEOUT_MS = 10_000;
const MAX_RESPONSE_CHARACTERS = 4_096;

/**
 * Sends a small POST request without a body to a server that gantry started. Returns the status and the start of the
 * response text.
 *
 * `checkConnection` inspects the connection before anything is sent, and rejects to prevent the request. `post` rejects
 * if no response arrives in time.
 */
export async function post(
  url: string,
  headers: Record<string, string>,
  checkConnection: (socket: Socket) => Promise<void>,
): Promise<{ status: number; text: string }> {
  const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
  const { protocol, hostname, port } = new URL(url);
  const isSecure = protocol === "https:";
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const socket = connect({ host, port: Number(port || (isSecure ? 443 : 80)) });
  try {
    await once(socket, "connect", { signal });
    // Prevents an uncaught error. Later errors of the socket are reported by the request.
    socket.on("error", () => undefined);
    await checkConnection(socket);
    const connection = isSecure ? await connectTls(socket, host) : socket;
    const { request } = isSecure ? await import("node:https") : await import("node:http");
    const clientRequest = request(url, {
      method: "POST",
      headers: encodeHeaderValues(headers),
      signal,
      createConnection: () => connection,
    });
    clientRequest.end();
    const [response] = (await once(clientRequest, "response")) as [IncomingMessage];
    let text = "";
    for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
      text += chunk;
      if (text.length > MAX_RESPONSE_CHARACTERS) break;
    }
    return { status: response.statusCode ?? 0, text };
  } finally {
    socket.destroy();
  }
}

async function connectTls(socket: Socket, host: string): Promise<Socket> {
  const tls = await import("node:tls");
  return tls.connect({ socket, host, ...(isIP(host) === 0 && { servername: host }) });
}

/**
 * Encodes values with characters outside Latin-1 as UTF-8 bytes, because node sends header values as Latin-1. Gantry's
 * server accepts both encodings.
 */
function encodeHeaderValues(headers: Record<string, string>): Record<string, string> {
  const encodeValue = (value: string) => {
    const isLatin1 = Buffer.from(value, "latin1").toString("latin1") === value;
    return isLatin1 ? value : Buffer.from(value, "utf8").toString("latin1");
  };
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, encodeValue(value)]));
}
