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
    const session = { watched: new Map<string, number>(), queue: undefined as string[][] | undefined };
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let command = readCommand(bytes); command; command = readCommand(bytes)) {
        bytes = bytes.subarray(command.end);
        socket.write(this.#answer(session, command.words));
      }
    });
  }

  #answer(session: { watched: Map<string, number>; queue: string[][] | undefined }, commandWords: string[]): string {
    const [name, ...args] = commandWords;
    if (name === "EXEC") {
      const { queue = [] } = session;
      const isUnchanged = [...session.watched].every(([key, count]) => (this.#changeCounts.get(key) ?? 0) === count);
      session.queue = undefined;
      session.watched.clear();
      return isUnchanged ? `*${queue.length}\r\n${queue.map((command) => this.#execute(command)).join("")}` : "*-1\r\n";
    }
    if (name === "MULTI") session.queue = [];
    else if (session.queue) session.queue.push(commandWords);
    else if (name === "UNWATCH") session.watched.clear();
    else if (name === "WATCH") for (const key of args) session.watched.set(key, this.#changeCounts.get(key) ?? 0);
    else return this.#execute(commandWords);
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

/** The first command, if it is complete. */
function readCommand(bytes: Buffer): { words: string[]; end: number } | undefined {
  let end = bytes.indexOf("\r\n");
  if (end < 0) return undefined;
  const count = Number(bytes.toString("utf8", 1, end));
  end += 2;
  const words: string[] = [];
  while (words.length < count) {
    const line = bytes.indexOf("\r\n", end);
    if (line < 0) return undefined;
    const length = Number(bytes.toString("utf8", end + 1, line));
    if (bytes.length < line + 2 + length + 2) return undefined;
    words.push(bytes.toString("utf8", line + 2, line + 2 + length));
    end = line + 2 + length + 2;
  }
  return { words, end };
}
