import type { DependencyContainer } from "tsyringe";
import { Agent } from "../agent/agent.js";
import { silentLogger } from "../base/log.js";
import { HTTP_HOST, type AdapterDescriptor, type AdapterKind, type AdapterKinds } from "../plugin/adapter.js";
import type { Transport } from "../plugin/transport.js";
import { AdapterError } from "../ports/errors.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { MemoryDriver } from "../memory-driver/memory-driver.js";
import { buildAdapter } from "./adapter-container.js";
import { startNamed } from "./compose.js";
import { loadConfig } from "./config.js";
import { createContainer, provideHttpHost } from "./container.js";
import { reasonOf } from "./selected-adapters.js";

/** An adapter to test without a config. */
export interface TriedAdapter<Kind extends AdapterKind = AdapterKind> {
  readonly descriptor: AdapterDescriptor<Kind>;
  /** Prefix of error messages. */
  readonly module: string;
  readonly exportName: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A part to test. `close` closes everything that was created with it, but not the part. */
export interface TriedPart<Kind extends AdapterKind> {
  readonly part: AdapterKinds[Kind];
  close(): Promise<void>;
}

/** Creates a part as a start does. `folder` is the home, config and project folder. Rejects like a start. */
export async function tryAdapter<Kind extends AdapterKind>(
  { descriptor, module, exportName, options }: TriedAdapter<Kind>,
  folder: string,
): Promise<TriedPart<Kind>> {
  const { kind, name } = descriptor;
  const loaded = { ...(await loadConfig({ home: folder, overrides: { "server.port": 0 } })), file: module };
  const root = createContainer({ loaded, home: folder, projectDir: folder, logger: silentLogger });
  if (kind === "transport") await provideHttpHost(root);
  const selected = { kind, name, options, key: exportName, section: "options" };
  return { part: await buildAdapter(root, selected, descriptor), close: async () => closePort(root) };
}

async function closePort(root: DependencyContainer): Promise<void> {
  if (root.isRegistered(HTTP_HOST)) await root.resolve(HTTP_HOST).close(AbortSignal.abort());
}

/** Opens a part as a start does, and closes it. Rejects with the `AdapterError` of a start. */
export async function tryStart<Kind extends AdapterKind>(
  { descriptor: { kind, name }, module, exportName }: TriedAdapter<Kind>,
  part: AdapterKinds[Kind],
  startMs: number,
): Promise<void> {
  const place = `${module}: ${exportName}: ${name}`;
  if (kind === "model-provider") await (part as ModelProvider).close();
  if (kind === "session-driver") {
    const driver = part as SessionDriver;
    await (async () => driver.open())().catch((error: unknown) => {
      throw new AdapterError(`${place} could not be opened: ${reasonOf(error)}`, { cause: error });
    });
    await driver.close();
  }
  if (kind !== "transport") return;
  await using agent = new Agent({ providers: [], driver: new MemoryDriver() });
  const listening = await startNamed(part as Transport, agent, place, startMs);
  await listening.stop(AbortSignal.abort());
}
