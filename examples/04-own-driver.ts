// Your own session driver. This driver keeps sessions in memory and writes each synced chain to a file.
// docs/writing-a-driver.md has the contract of drivers and the checks for it.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Agent, MemoryDriver } from "gantry";
import type { ChainData, SessionChange } from "gantry/plugin";
import { OfflineProvider } from "gantry/adapters/offline-provider";

class FolderDriver extends MemoryDriver {
  readonly #folder: string;

  constructor(folder: string) {
    super();
    this.#folder = folder;
  }

  override async open(): Promise<void> {
    await super.open();
    await mkdir(this.#folder, { recursive: true });
    for (const name of await readdir(this.#folder))
      await this.load(JSON.parse(await readFile(join(this.#folder, name), "utf8")) as ChainData);
  }

  override async write(id: string, change: SessionChange): ReturnType<MemoryDriver["write"]> {
    const result = await super.write(id, change);
    const chain = await this.dump(id);
    const rootId = chain?.sessions[0]?.session.id ?? id;
    if (change.sync) await writeFile(join(this.#folder, `${rootId}.json`), JSON.stringify(chain));
    return result;
  }
}

const folder = process.argv[2] ?? "sessions";
const providers = [new OfflineProvider()];
const firstAgent = new Agent({ providers, driver: new FolderDriver(folder) });
const { sessionId, result } = await firstAgent.run({ message: "Hello" });
await result;
await firstAgent.close();

const secondAgent = new Agent({ providers: [new OfflineProvider()], driver: new FolderDriver(folder) });
const messages = await secondAgent.sessions.messages(sessionId);
console.log(messages.map(({ seq, role }) => `${seq} ${role}`).join(", "));
await secondAgent.close();
