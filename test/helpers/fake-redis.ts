import { createServer, type Server, type Socket } from "node:net";

/**
 * The part of Redis that a document store needs: strings, KEYS by prefix, and transactions by WATCH, MULTI and EXEC.
 */
export class FakeRedis {
  readonly #values = new Map<string, string>();
  /** Number of changes of each key. */
  readonly #changeCounts = new Map<string, number>();
  readonly #sockets = new Set<Socket>();
  readonly #server: Server = createServer((socket) => this.#serve(socket));

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
    let bytes = Buffer.alloc(0);
    const session = { changeCountsByKey: new Map<string, number>(), queue: undefined as string[][] | undefined };
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let command = readCommand(bytes); command; command = readCommand(bytes)) {
        bytes = bytes.subarray(command.endOffset);
        socket.write(this.#answer(session, command.parts));
      }
    });
  }

  #answer(
    session: { changeCountsByKey: Map<string, number>; queue: string[][] | undefined },
    command: string[],
  ): string {
    const [name, ...args] = command;
    if (name === "EXEC") {
      const { queue = [] } = session;
      const isUnchanged = [...session.changeCountsByKey].every(
        ([key, count]) => (this.#changeCounts.get(key) ?? 0) === count,
      );
      session.queue = undefined;
      session.changeCountsByKey.clear();
      return isUnchanged
        ? `*${queue.length}\r\n${queue.map((queuedCommand) => this.#execute(queuedCommand)).join("")}`
        : "*-1\r\n";
    }
    if (name === "MULTI") session.queue = [];
    else if (session.queue) session.queue.push(command);
    else if (name === "UNWATCH") session.changeCountsByKey.clear();
    else if (name === "WATCH")
      for (const key of args) session.changeCountsByKey.set(key, this.#changeCounts.get(key) ?? 0);
    else return this.#execute(command);
    return "+OK\r\n";
  }

  #execute([name, ...args]: string[]): string {
    const [key = "", value = ""] = args;
    if (name === "MGET") return encodeList(args.map((argument) => this.#values.get(argument)));
    if (name === "KEYS") {
      const prefix = key.slice(0, -1).replaceAll(/\\(.)/g, "$1");
      return encodeList([...this.#values.keys()].filter((storedKey) => storedKey.startsWith(prefix)));
    }
    if (name !== "SET" && name !== "DEL") return `-ERR unknown command ${name}\r\n`;
    this.#changeCounts.set(key, (this.#changeCounts.get(key) ?? 0) + 1);
    if (name === "SET") this.#values.set(key, value);
    else this.#values.delete(key);
    return "+OK\r\n";
  }
}

const encodeList = (texts: readonly (string | undefined)[]): string =>
  `*${texts.length}\r\n${texts.map(encodeBulk).join("")}`;

const encodeBulk = (text: string | undefined): string =>
  text === undefined ? "$-1\r\n" : `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

/** The parts of the first command, and the offset after that command; undefined if the command is incomplete. */
function readCommand(bytes: Buffer): { parts: string[]; endOffset: number } | undefined {
  let offset = bytes.indexOf("\r\n");
  if (offset < 0) return undefined;
  const count = Number(bytes.toString("utf8", 1, offset));
  offset += 2;
  const parts: string[] = [];
  while (parts.length < count) {
    const lengthEnd = bytes.indexOf("\r\n", offset);
    if (lengthEnd < 0) return undefined;
    const length = Number(bytes.toString("utf8", offset + 1, lengthEnd));
    if (bytes.length < lengthEnd + 2 + length + 2) return undefined;
    parts.push(bytes.toString("utf8", lengthEnd + 2, lengthEnd + 2 + length));
    offset = lengthEnd + 2 + length + 2;
  }
  return { parts, endOffset: offset };
}
