import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import type { Agent } from "gantry";
import { ListenError, type Listening, type Transport } from "gantry/plugin";
import type { TransportClient } from "gantry/testing";

/**
 * Passes each line to `onLine`. Splits only at LF, because Node 24's readline also splits at U+2028, which JSON
 * permits.
 */
function readLines(socket: Socket, onLine: (line: string) => void): void {
  let incompleteLine = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    const lines = (incompleteLine + text).split("\n");
    incompleteLine = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
}

/**
 * Faults that a line transport can simulate. Invalid values: `name`, `address`. Listening: `early` (does not listen),
 * `half open` (a failed start leaves a port open), `ends early`. Messages: `trims` white space, `buffers` the
 * answer, `drops` the second piece, `forgets` the session, `invents` a session for an unknown id, `crosses` answers of
 * all clients, `swallows` errors, `runs on` after a disconnect, `disturbs` other clients at a disconnect. Stop: `hasty`
 * (cancels at once), `never cancels`, `takes more` requests, `stops once`, `never ends`, `stays open`, `waits for
 * clients`, `closes the agent`.
 */
export type LineFault =
  | "name"
  | "address"
  | "early"
  | "half open"
  | "trims"
  | "buffers"
  | "drops"
  | "forgets"
  | "invents"
  | "crosses"
  | "swallows"
  | "runs on"
  | "disturbs"
  | "hasty"
  | "never cancels"
  | "takes more"
  | "stops once"
  | "never ends"
  | "ends early"
  | "stays open"
  | "waits for clients"
  | "closes the agent";

/** Servers that a fault left open. */
const openServers = new Set<Server>();

export function closeOpenServers(): void {
  for (const openServer of openServers) openServer.close();
  openServers.clear();
}

interface LineRequest {
  text: string;
  sessionId?: string;
}

/** A transport for lines of JSON over TCP, correct except for at most one fault. */
export class LineTransport implements Transport {
  readonly name: string;
  readonly #port: number;
  readonly #fault: LineFault | undefined;

  constructor(fault?: LineFault, port = 0) {
    this.name = fault === "name" ? "two words" : "lines";
    this.#port = port;
    this.#fault = fault;
  }

  async start(agent: Agent): Promise<Listening> {
    const fault = this.#fault;
    const otherServer = fault === "half open" ? createServer().listen(0, "127.0.0.1") : undefined;
    if (otherServer) openServers.add(otherServer);
    const server = createServer();
    if (fault === "stays open") openServers.add(server);
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening").catch((error: unknown) => {
      throw new ListenError("cannot listen", { cause: error });
    });
    otherServer?.close();
    const { port } = server.address() as AddressInfo;
    if (fault === "early") {
      server.close();
      return new LineListener(agent, createServer(), port, fault);
    }
    return new LineListener(agent, server, port, fault);
  }
}

class LineListener implements Listening {
  readonly address: string;
  readonly ended: Promise<void>;
  readonly #agent: Agent;
  readonly #server: Server;
  readonly #fault: LineFault | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #runs = new Set<Promise<void>>();
  readonly #cancel = new AbortController();
  #stopPromise: Promise<void> | undefined;
  #settle: () => void = () => undefined;

  constructor(agent: Agent, server: Server, port: number, fault: LineFault | undefined) {
    this.#agent = agent;
    this.#server = server;
    this.#fault = fault;
    this.address = fault === "address" ? `port ${port}\n` : `tcp://127.0.0.1:${port}`;
    this.ended = fault === "ends early" ? Promise.resolve() : new Promise((resolve) => (this.#settle = resolve));
    server.on("connection", (socket) => this.#addSocket(socket));
  }

  stop(signal: AbortSignal): Promise<void> {
    if (this.#fault === "stops once" && this.#stopPromise) throw new Error("stopped already");
    return (this.#stopPromise ??= this.#stop(signal));
  }

  async #stop(signal: AbortSignal): Promise<void> {
    const cancel = () => this.#fault !== "never cancels" && this.#cancel.abort();
    if (signal.aborted || this.#fault === "hasty") cancel();
    else signal.addEventListener("abort", cancel, { once: true });
    if (this.#fault !== "stays open") this.#server.close();
    await Promise.all(this.#runs);
    if (this.#fault === "waits for clients") await new Promise((resolve) => this.#server.once("close", resolve));
    for (const socket of this.#sockets) socket.destroy();
    if (this.#fault === "closes the agent") await this.#agent.close();
    if (this.#fault !== "never ends") this.#settle();
  }

  #addSocket(socket: Socket): void {
    this.#sockets.add(socket);
    const disconnect = new AbortController();
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#sockets.delete(socket);
      if (this.#fault !== "runs on") disconnect.abort();
      if (this.#fault === "disturbs") for (const peer of this.#sockets) peer.destroy();
    });
    readLines(socket, (line) => {
      if (this.#stopPromise && this.#fault !== "takes more") return void socket.destroy();
      const run = this.#answer(socket, JSON.parse(line) as LineRequest, disconnect.signal);
      this.#runs.add(run);
      void run.finally(() => this.#runs.delete(run));
    });
  }

  async #answer(socket: Socket, { text, sessionId }: LineRequest, disconnectSignal: AbortSignal): Promise<void> {
    const fault = this.#fault;
    const getTargets = () => (fault === "crosses" ? [...this.#sockets] : [socket]);
    const send = (value: unknown) => getTargets().forEach((target) => target.write(`${JSON.stringify(value)}\n`));
    try {
      const usedSessionId =
        fault === "forgets" || (fault === "invents" && sessionId === "no-such-session") ? undefined : sessionId;
      const run = await this.#agent.run({
        message: fault === "trims" ? text.replace(/\s+/g, " ") : text,
        overflow: "merge",
        signal: AbortSignal.any([disconnectSignal, this.#cancel.signal]),
        ...(usedSessionId === undefined ? {} : { sessionId: usedSessionId }),
      });
      let bufferedText = "";
      let count = 0;
      for await (const event of run) {
        if (event.type !== "token" || event.text === undefined) continue;
        count++;
        if (fault === "buffers") bufferedText += event.text;
        else if (fault !== "drops" || count !== 2) send({ piece: event.text });
      }
      await run.result;
      if (bufferedText !== "") send({ piece: bufferedText });
      send({ done: run.sessionId });
    } catch (error) {
      send(fault === "swallows" ? { done: "" } : { error: (error as Error).message });
    }
  }
}

/** Connects a client to the transport. */
export async function connectLineClient({ address }: Listening): Promise<TransportClient> {
  const socket = connect(Number(/\d+\s*$/.exec(address)?.[0]), "127.0.0.1");
  await once(socket, "connect");
  const closeEvent = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => undefined);
  let onLine: (line: { piece?: string; done?: string; error?: string }) => void = () => undefined;
  readLines(socket, (line) => onLine(JSON.parse(line) as { piece?: string }));
  return {
    prompt: (text, { sessionId, onText } = {}) =>
      new Promise((resolve, reject) => {
        let fullText = "";
        void closeEvent.then(() => reject(new Error("the connection is closed")));
        onLine = ({ piece, done, error }) => {
          if (piece !== undefined) {
            fullText += piece;
            onText?.(piece);
          } else if (error !== undefined) reject(new Error(error));
          else resolve({ text: fullText, sessionId: done ?? "" });
        };
        socket.write(`${JSON.stringify({ text, sessionId })}\n`);
      }),
    close() {
      socket.destroy();
      return closeEvent;
    },
  };
}
