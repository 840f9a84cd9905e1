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
import { startThirdPartyTransport } from "./compose.js";
import { loadConfig } from "./config.js";
import { createContainer, provideHttpHost } from "./container.js";
import { reasonOf } from "./error-reason.js";

/** An adapter to test without a config. */
export interface TestedAdapter<Kind extends AdapterKind = AdapterKind> {
  readonly descriptor: AdapterDescriptor<Kind>;
  /** Name of the module, the prefix of error messages. */
  readonly module: string;
  readonly exportName: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A created adapter to test. `close` closes everything that was created with the adapter, but not the adapter. */
export interface TestedAdapterInstance<Kind extends AdapterKind> {
  readonly adapter: AdapterKinds[Kind];
  close(): Promise<void>;
}

/** Creates an adapter as `gantry serve` does, with the same errors. `folder` is the home, config and project folder. */
export async function createTestedAdapter<Kind extends AdapterKind>(
  { descriptor, module, exportName, options }: TestedAdapter<Kind>,
  folder: string,
): Promise<TestedAdapterInstance<Kind>> {
  const { kind, name } = descriptor;
  const loadedConfig = { ...(await loadConfig({ home: folder, overrides: { "server.port": 0 } })), file: module };
  const root = createContainer({ loadedConfig, home: folder, projectDir: folder, logger: silentLogger });
  if (kind === "transport") await provideHttpHost(root);
  const selected = { kind, name, options, key: exportName, section: "options" };
  return { adapter: await buildAdapter(root, selected, descriptor), close: async () => closePort(root) };
}

async function closePort(root: DependencyContainer): Promise<void> {
  if (root.isRegistered(HTTP_HOST)) await root.resolve(HTTP_HOST).close(AbortSignal.abort());
}

/** Opens and closes an adapter as `gantry serve` does. Rejects with the same `AdapterError`. */
export async function tryStart<Kind extends AdapterKind>(
  { descriptor: { kind, name }, module, exportName }: TestedAdapter<Kind>,
  adapter: AdapterKinds[Kind],
  startTimeoutMs: number,
): Promise<void> {
  const errorPrefix = `${module}: ${exportName}: ${name}`;
  if (kind === "model-provider") await (adapter as ModelProvider).close();
  if (kind === "session-driver") {
    const driver = adapter as SessionDriver;
    await (async () => driver.open())().catch((error: unknown) => {
      throw new AdapterError(`${errorPrefix} could not be opened: ${reasonOf(error)}`, { cause: error });
    });
    await driver.close();
  }
  if (kind !== "transport") return;
  await using agent = new Agent({ providers: [], driver: new MemoryDriver() });
  const listening = await startThirdPartyTransport(adapter as Transport, agent, errorPrefix, startTimeoutMs);
  await listening.stop(AbortSignal.abort());
}
