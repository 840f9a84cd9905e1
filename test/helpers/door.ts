import { once } from "node:events";
import { createServer, request, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import type { Hooks } from "./temp.js";

/** What is answered in place of the server. */
export interface OddAnswer {
  status: number;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** The connection is cut behind the body; else the answer ends. */
  breaks?: boolean;
  /** The answer goes on, without a word. */
  hangs?: boolean;
}

/** A proxy in front of a server. */
export interface Door {
  url: string;
  /** Requests that came: method, path with its query, headers, and when (`performance.now()`). */
  requests: { method: string; path: string; headers: IncomingHttpHeaders; at: number }[];
  /** The next request is answered so, without the server's doing; further ones wait in line. "hang": not at all. */
  next(answer: OddAnswer | "hang"): void;
}

/** Passes all on to the server at `target`, but for what it is told to answer by itself. */
export async function door(hooks: Hooks, target: string): Promise<Door> {
  const answers: (OddAnswer | "hang")[] = [];
  const requests: Door["requests"] = [];
  const server = createServer((asked, response) => {
    const { method = "", url: path = "", headers } = asked;
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
    pipeline(asked, onward, () => {});
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
