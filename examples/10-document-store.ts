// Sessions in Redis, shared by any number of processes, in one page. DocumentDriver implements the rules of a session
// store and needs versioned documents; see docs/writing-a-driver.md. Run it with the address of a server: HOST:PORT.
import { connect, type Socket } from "node:net";
import { Agent } from "gantry";
import { DocumentDriver, type DocumentChange, type DocumentStore, type StoredDocument } from "gantry/plugin";
import { OfflineProvider } from "gantry/adapters/offline-provider";

/** A connection that sends one command after the other and parses RESP replies: +text -error :number $bytes *array. */
class Redis implements DocumentStore {
  #socket!: Socket;
  #chunks!: NodeJS.AsyncIterator<Buffer>;
  #bytes = Buffer.alloc(0);

  constructor(readonly address: string) {}

  open(): void {
    const [host = "", port = ""] = this.address.split(":");
    this.#socket = connect(Number(port), host);
    this.#chunks = this.#socket[Symbol.asyncIterator]() as NodeJS.AsyncIterator<Buffer>;
  }
  close = () => void this.#socket.destroy();

  async get(keys: readonly string[]): Promise<(StoredDocument | undefined)[]> {
    const texts = (await this.#send("MGET", ...keys)) as (string | null)[];
    return texts.map((text) => (text === null ? undefined : (JSON.parse(text) as StoredDocument)));
  }
  async scan(prefixes: readonly string[]): Promise<StoredDocument[]> {
    for (;;) {
      await this.#send("WATCH", "version");
      const documents: StoredDocument[] = [];
      for (const prefix of prefixes) {
        const keys = (await this.#send("KEYS", `${prefix.replaceAll(/[\\*?[\]]/g, "\\$&")}*`)) as string[];
        if (keys.length > 0) documents.push(...(await this.get(keys)).filter((document) => document !== undefined));
      }
      await this.#send("MULTI");
      if ((await this.#send("EXEC")) !== null) return documents; // Otherwise another client changed a document meanwhile.
    }
  }
  async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    const keys = changes.map(({ key }) => key);
    await this.#send("WATCH", "version", ...keys);
    const [last, ...old] = (await this.#send("MGET", "version", ...keys)) as (string | null)[];
    const isAsRead = changes.every(({ version }, at) => version === undefined || versionOf(old[at]) === version);
    // The documents to compare were read at one moment.
    if (!isAsRead || changes.every(({ value }) => value === undefined)) {
      await this.#send("UNWATCH");
      return isAsRead;
    }
    const version = Number(last ?? 0) + 1;
    await this.#send("MULTI");
    await this.#send("SET", "version", `${version}`);
    for (const { key, value } of changes)
      if (value === null) await this.#send("DEL", key);
      else if (value !== undefined) await this.#send("SET", key, JSON.stringify({ key, version, value }));
    return (await this.#send("EXEC")) !== null;
  }

  #send(...words: string[]): Promise<unknown> {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    this.#socket.write(`*${words.length}\r\n${parts.join("")}`);
    return this.#reply();
  }
  async #reply(): Promise<unknown> {
    const line = await this.#take(async () => this.#bytes.indexOf("\r\n"));
    const [kind, value] = [line[0], line.slice(1)];
    if (kind === "-") throw new Error(value);
    if (kind === "+" || kind === ":") return value;
    const length = Number(value);
    if (length < 0) return null;
    if (kind === "$") return this.#take(async () => (this.#bytes.length >= length + 2 ? length : -1));
    const all: unknown[] = [];
    while (all.length < length) all.push(await this.#reply());
    return all;
  }
  async #take(end: () => Promise<number>): Promise<string> {
    let at = await end();
    for (; at < 0; at = await end()) {
      const next = await this.#chunks.next();
      if (next.done) throw new Error("the connection ended");
      this.#bytes = Buffer.concat([this.#bytes, next.value]);
    }
    const text = this.#bytes.toString("utf8", 0, at);
    this.#bytes = this.#bytes.subarray(at + 2);
    return text;
  }
}

const versionOf = (text: string | null | undefined) => (text ? (JSON.parse(text) as StoredDocument).version : 0);

export class RedisDriver extends DocumentDriver {
  constructor(address: string) {
    super({ name: "redis", documents: new Redis(address) });
  }
}

const [, program = "", address] = process.argv;
if (program.includes("10-document-store") && address !== undefined) {
  const agent = new Agent({ providers: [new OfflineProvider()], driver: new RedisDriver(address) });
  const { sessionId, result } = await agent.run({ message: "Hello" });
  await result;
  console.log((await agent.sessions.messages(sessionId)).map(({ seq, role }) => `${seq} ${role}`).join(", "));
  await agent.close();
}
