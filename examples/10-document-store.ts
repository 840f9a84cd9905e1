// Sessions in Redis, shared by any number of processes, in one page. DocumentDriver implements the rules of a session
// store and needs versioned documents; see docs/writing-a-driver.md. The argument is the address of a server: HOST:PORT.
import { connect, type Socket } from "node:net";
import { Agent } from "gantry";
import { DocumentDriver, type DocumentChange, type DocumentStore, type StoredDocument } from "gantry/plugin";
import { OfflineProvider } from "gantry/adapters/offline-provider";

/** A connection that sends one command at a time and parses replies of RESP: +text -error :number $bytes *array. */
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
      if ((await this.#send("EXEC")) !== null) return documents; // null: another client changed a document.
    }
  }
  async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    const keys = changes.map(({ key }) => key);
    // WATCH makes EXEC fail if another client changes one of these keys.
    await this.#send("WATCH", "version", ...keys);
    const [lastVersion, ...oldTexts] = (await this.#send("MGET", "version", ...keys)) as (string | null)[];
    const isUnchanged = changes.every(
      ({ version }, index) => version === undefined || readVersion(oldTexts[index]) === version,
    );
    if (!isUnchanged || changes.every(({ value }) => value === undefined)) {
      await this.#send("UNWATCH");
      return isUnchanged;
    }
    const version = Number(lastVersion ?? 0) + 1;
    await this.#send("MULTI");
    await this.#send("SET", "version", `${version}`);
    for (const { key, value } of changes)
      if (value === null) await this.#send("DEL", key);
      else if (value !== undefined) await this.#send("SET", key, JSON.stringify({ key, version, value }));
    return (await this.#send("EXEC")) !== null;
  }

  #send(...args: string[]): Promise<unknown> {
    const parts = args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`);
    this.#socket.write(`*${args.length}\r\n${parts.join("")}`);
    return this.#readReply();
  }
  async #readReply(): Promise<unknown> {
    const line = await this.#readUntil(async () => this.#bytes.indexOf("\r\n"));
    const [marker, value] = [line[0], line.slice(1)];
    if (marker === "-") throw new Error(value);
    if (marker === "+" || marker === ":") return value;
    const length = Number(value);
    if (length < 0) return null;
    if (marker === "$") return this.#readUntil(async () => (this.#bytes.length >= length + 2 ? length : -1));
    const items: unknown[] = [];
    while (items.length < length) items.push(await this.#readReply());
    return items;
  }
  async #readUntil(findEnd: () => Promise<number>): Promise<string> {
    let end = await findEnd();
    for (; end < 0; end = await findEnd()) {
      const chunk = await this.#chunks.next();
      if (chunk.done) throw new Error("the connection ended");
      this.#bytes = Buffer.concat([this.#bytes, chunk.value]);
    }
    const text = this.#bytes.toString("utf8", 0, end);
    this.#bytes = this.#bytes.subarray(end + 2);
    return text;
  }
}

const readVersion = (text: string | null | undefined) => (text ? (JSON.parse(text) as StoredDocument).version : 0);

export class RedisDriver extends DocumentDriver {
  constructor(address: string) {
    super({ name: "redis", documents: new Redis(address) });
  }
}

const [, script = "", address] = process.argv;
if (script.includes("10-document-store") && address !== undefined) {
  const agent = new Agent({ providers: [new OfflineProvider()], driver: new RedisDriver(address) });
  const { sessionId, result } = await agent.run({ message: "Hello" });
  await result;
  console.log((await agent.sessions.messages(sessionId)).map(({ seq, role }) => `${seq} ${role}`).join(", "));
  await agent.close();
}
