import { once } from "node:events";
import { createServer, request, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import type { Hooks } from "./temp-dir.js";

/** A response that the proxy sends instead of the server's response. */
export interface ScriptedResponse {
  status: number;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Whether the connection breaks after the body; otherwise the response ends normally. */
  breaksConnection?: boolean;
  /** Whether the response stays open without further data. */
  staysOpen?: boolean;
}

/** A proxy in front of a server. */
export interface ScriptedProxy {
  url: string;
  /** Received requests: method, path with query, headers, and time (`performance.now()`). */
  requests: { method: string; path: string; headers: IncomingHttpHeaders; receivedAtMs: number }[];
  /** Paths with query of the requests whose response has not ended. */
  getOpenPaths(): string[];
  /**
   * Answers the next request with `answer` instead of forwarding it. Several answers are queued. "hang" sends no
   * response.
   */
  respondNext(answer: ScriptedResponse | "hang"): void;
}

/** Forwards all requests to the server at `target`, except requests with a scripted response. */
export async function startScriptedProxy(hooks: Hooks, target: string): Promise<ScriptedProxy> {
  const scriptedResponses: (ScriptedResponse | "hang")[] = [];
  const requests: ScriptedProxy["requests"] = [];
  const openRequests = new Set<ScriptedProxy["requests"][number]>();
  const server = createServer((clientRequest, response) => {
    const { method = "", url: path = "", headers } = clientRequest;
    const receivedRequest = { method, path, headers, receivedAtMs: performance.now() };
    requests.push(receivedRequest);
    openRequests.add(receivedRequest);
    response.on("close", () => openRequests.delete(receivedRequest));
    const scriptedResponse = scriptedResponses.shift();
    if (scriptedResponse === "hang") return;
    if (scriptedResponse) {
      response.writeHead(scriptedResponse.status, { "content-type": "application/json", ...scriptedResponse.headers });
      response.write(scriptedResponse.body ?? "", () => {
        if (scriptedResponse.breaksConnection) response.destroy();
        else if (!scriptedResponse.staysOpen) response.end();
      });
      return;
    }
    const forwardedRequest = request(new URL(path, target), { method, headers, agent: false }, (serverResponse) => {
      response.writeHead(serverResponse.statusCode ?? 502, serverResponse.headers);
      response.flushHeaders();
      pipeline(serverResponse, response, () => {});
    });
    forwardedRequest.on("error", () => response.destroy());
    response.on("close", () => forwardedRequest.destroy());
    pipeline(clientRequest, forwardedRequest, () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(async () => {
    const closeEvent = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closeEvent;
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    getOpenPaths: () => [...openRequests].map(({ path }) => path),
    respondNext: (answer) => void scriptedResponses.push(answer),
  };
}
