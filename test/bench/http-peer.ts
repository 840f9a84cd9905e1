// A server to compare with `gantry serve`. A file describes how to start it, when it is ready, and how to request a
// run.
import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Bench, Figure } from "./bench.js";
import { HttpClient } from "./http-client.js";
import { endProcess, startProcess } from "./processes.js";

/** Contents of a peer's file. `{model}` in its texts is replaced with the model's base URL. */
export interface HttpPeer {
  name: string;
  /** Shell command that starts the server. */
  command: string;
  /** URL whose GET returns 200 once the server is ready. */
  readyUrl: string;
  /**
   * Requests of a fresh run, in order; a turn on a stored session sends only the last request. `{prompt}` and `{id}`
   * are replaced; the id is the field `id` of the first response. Undefined: only the start is measured.
   */
  runRequests?: readonly (readonly [path: string, body: unknown])[];
}

const START_LIMIT_MS = 60_000;

/** Reads a peer's file. */
export function readHttpPeer(file: string): HttpPeer {
  return JSON.parse(readFileSync(file, "utf8")) as HttpPeer;
}

/** A running peer. Callers must `close` the server. */
export class HttpPeerServer {
  readonly peer: HttpPeer;
  /** Time from the spawn until the server was ready. */
  readonly startDurationMs: number;
  readonly #child: ChildProcess;
  readonly #client: HttpClient;

  private constructor(peer: HttpPeer, child: ChildProcess, startDurationMs: number) {
    this.peer = peer;
    this.startDurationMs = startDurationMs;
    this.#child = child;
    this.#client = new HttpClient(new URL(peer.readyUrl).origin);
  }

  /** Starts the server and polls `ready`. Rejects if the server is not ready within a minute. */
  static async start(bench: Bench, peer: HttpPeer, cwd: string): Promise<HttpPeerServer> {
    const startMs = performance.now();
    const child = startProcess(peer.command.replaceAll("{model}", bench.modelUrl), { cwd, env: process.env });
    while (performance.now() - startMs < START_LIMIT_MS) {
      const response = await fetch(peer.readyUrl, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
      await response?.body?.cancel();
      if (response?.status === 200) return new HttpPeerServer(peer, child, performance.now() - startMs);
      await delay(2);
    }
    await endProcess(child);
    throw new Error(`${peer.name} was not ready after ${START_LIMIT_MS / 1000} s`);
  }

  /** Runs a prompt in a new session or in `sessionId`. Resolves with the session id and the duration. */
  async run(prompt: string, sessionId = ""): Promise<{ id: string; ms: number }> {
    const startMs = performance.now();
    const requests = this.peer.runRequests ?? [];
    let id = sessionId;
    for (const [path, body] of sessionId === "" ? requests : requests.slice(-1)) {
      const json = JSON.stringify(body).replaceAll("{prompt}", JSON.stringify(prompt).slice(1, -1));
      const response = await this.#client.post(path.replaceAll("{id}", id), json.replaceAll("{id}", id));
      if (id === "") id = String((JSON.parse(response.body) as { id?: unknown }).id);
    }
    return { id, ms: performance.now() - startMs };
  }

  async close(): Promise<void> {
    this.#client.close();
    await endProcess(this.#child);
  }
}

/** Measures all peers that accept runs. Each peer has its own process and a few warm-up runs. */
export async function measurePeers(
  bench: Bench,
  measure: (server: HttpPeerServer) => Promise<Figure>,
): Promise<Record<string, Figure>> {
  const figures: Record<string, Figure> = {};
  for (const peer of bench.options.httpPeers.filter(({ runRequests }) => runRequests)) {
    const server = await HttpPeerServer.start(bench, peer, bench.createProject());
    try {
      for (let n = 0; n < 5; n++) await server.run("hi");
      figures[peer.name] = await measure(server);
    } finally {
      await server.close();
    }
  }
  return figures;
}
