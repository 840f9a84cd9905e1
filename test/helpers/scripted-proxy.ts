import { once } from "node:events";
import { createServer, request, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import type { Hooks } from "./temp.js";

/** A response that replaces the server's. */
export interface UnusualAnswer {
  status: number;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Whether the connection breaks after the body; otherwise the response ends normally. */
  breaks?: boolean;
  /** Whether the response stays open without further data. */
  hangs?: boolean;
}

/** A proxy in front of a server. */
export interface ScriptedProxy {
  url: string;
  /** Received requests: method, path with query, headers, and time (`performance.now()`). */
  requests: { method: string; path: string; headers: IncomingHttpHeaders; at: number }[];
  /**
   * Answers the next request with `answer` instead of forwarding it. Several answers are queued. "hang" sends no
   * response.
   */
  next(answer: UnusualAnswer | "hang"): void;
}

/** Forwards all requests to the server at `target`, except those with a scripted answer. */
export async function startScriptedProxy(hooks: Hooks, target: string): Promise<ScriptedProxy> {
  const answers: (UnusualAnswer | "hang")[] = [];
  const requests: ScriptedProxy["requests"] = [];
  const server = createServer((incoming, response) => {
    const { method = "", url: path = "", headers } = incoming;
    requests.push({ method, path, headers, at: performance.now() });
    const odd = answers.shift();
    if (odd === "hang") return;
    if (odd) {
      response.writeHead(odd.status, { "content-type": "application/json", ...odd.headers });
      response.write(odd.body ?? "", () => {
        if (odd.breaks) response.destroy();
        else if (!odd.hangs) response.end();
      });
      return;
    }
    const onward = request(new URL(path, target), { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      pipeline(answer, response, () => {});
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    pipeline(incoming, onward, () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(async () => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    next: (answer) => void answers.push(answer),
  };
}
