import type { DependencyContainer, FactoryProvider, InjectionToken } from "tsyringe";
import { isRecord } from "../base/json.js";
import { createNamedLogger } from "../base/log.js";
import {
  HOME,
  HTTP_HOST,
  LOGGER,
  OPTIONS,
  type AdapterContext,
  type AdapterDescriptor,
  type AdapterKind,
  type AdapterKinds,
} from "../plugin/adapter.js";
import type { HookSet } from "../ports/hooks.js";
import { AdapterError, hasCode } from "../ports/errors.js";
import { parseOptions } from "./parse-options.js";
import { createChildEnvironment } from "./environment.js";
import { reasonOf } from "./error-reason.js";
import { findAdapterFault } from "./port-check.js";
import { loadAdapter } from "./plugins.js";
import type { SelectedAdapter } from "./selected-adapters.js";
import { CONFIG, PROJECT_DIR, SELECTION } from "./tokens.js";

/** Token of the adapter in its own child container. */
const ADAPTER: InjectionToken<unknown> = Symbol("part");

/**
 * Loads a selected adapter and creates it in a child container with the adapter's options and logger.
 *
 * Rejects with `AdapterError` or `ConfigError`: one line with the file, the key and the module.
 */
export async function resolveAdapter<Kind extends AdapterKind>(
  root: DependencyContainer,
  selected: SelectedAdapter<Kind>,
): Promise<AdapterKinds[Kind]> {
  const { file, folder } = root.resolve(CONFIG);
  const descriptor = await loadAdapter(selected.kind, selected.name, folder, `${file}: ${selected.key}`);
  return buildAdapter(root, selected, descriptor);
}

/** Like `resolveAdapter`, for a loaded descriptor. */
export async function buildAdapter<Kind extends AdapterKind>(
  root: DependencyContainer,
  selected: SelectedAdapter<Kind>,
  descriptor: AdapterDescriptor<Kind>,
): Promise<AdapterKinds[Kind]> {
  const { file, folder, config } = root.resolve(CONFIG);
  const selection = root.resolve(SELECTION);
  const keyPrefix = `${file}: ${selected.key}`;
  const optionsContext = {
    location: `${file}: ${selected.section}`,
    configDir: folder,
    home: root.resolve(HOME),
    projectDir: root.resolve(PROJECT_DIR),
  };
  const options = parseOptions(selected, descriptor, optionsContext);
  const child = root.createChildContainer();
  // A factory, because tsyringe rejects undefined as a value.
  child.register(OPTIONS, { useFactory: () => options });
  child.registerInstance(LOGGER, createNamedLogger(root.resolve(LOGGER), descriptor.name));
  const isTransport = selected.kind === "transport";
  if (!isTransport) child.register(HTTP_HOST, { useFactory: rejectHttpHost });
  const context: AdapterContext<Kind> = {
    ...optionsContext,
    allowPaths: selection.allowPaths(),
    deniedPaths: selection.deniedPaths(),
    canRefresh: config.catalogue.refresh !== false,
    logger: child.resolve(LOGGER),
    get environment() {
      return createChildEnvironment(config.tools.env);
    },
    // A getter, so that the port is created only for adapters that read it.
    get http() {
      const host = isTransport && child.isRegistered(HTTP_HOST, true) ? child.resolve(HTTP_HOST) : undefined;
      return host as AdapterContext<Kind>["http"];
    },
  };
  const errorPrefix = `${keyPrefix}: ${selected.name}`;
  try {
    child.register(ADAPTER, toFactoryProvider(descriptor, context));
    const adapter = await child.resolve(ADAPTER);
    const fault = findAdapterFault(descriptor.kind, adapter) ?? (await findHooksFault(descriptor.kind, adapter));
    if (fault !== undefined) throw new AdapterError(`${errorPrefix} is not a valid ${descriptor.kind}: ${fault}`);
    return adapter as AdapterKinds[Kind];
  } catch (error) {
    if (hasCode(error, "config") || hasCode(error, "adapter")) throw error;
    throw new AdapterError(`${errorPrefix} could not be built: ${describeBuildError(error, descriptor)}`, {
      cause: error,
    });
  }
}

/** Returns why hooks are invalid; undefined if they are valid. The check's module is loaded with the first hooks. */
async function findHooksFault(kind: AdapterKind, adapter: unknown): Promise<string | undefined> {
  if (kind !== "hooks") return undefined;
  const { findHookSetFault } = await import("../plugin/hook-set.js");
  return findHookSetFault(adapter as HookSet);
}

/**
 * Returns tsyringe's provider of the adapter: the factory `create`, or the class `useClass`. The tokens in `inject`
 * select the arguments of the constructor. Throws if a parameter has no token.
 */
function toFactoryProvider<Kind extends AdapterKind>(
  descriptor: AdapterDescriptor<Kind>,
  context: AdapterContext<Kind>,
): FactoryProvider<unknown> {
  if (descriptor.create) {
    return { useFactory: (child) => descriptor.create?.(child.resolve(OPTIONS), context) };
  }
  const adapterClass = descriptor.useClass as new (...args: unknown[]) => unknown;
  const { inject } = descriptor;
  const tokens: unknown = Reflect.getOwnMetadata("injectionTokens", adapterClass) ?? {};
  const hasToken = (i: number) => (inject ? i < inject.length : isRecord(tokens) && i in tokens);
  // A parameter without a token would silently be undefined.
  if (!Array.from({ length: adapterClass.length }, (_, i) => hasToken(i)).every(Boolean))
    throw new Error(
      `every parameter of the constructor of ${adapterClass.name} needs @inject(TOKEN), or a token in \`inject\` of its descriptor`,
    );
  return {
    useFactory: (child) =>
      inject ? new adapterClass(...inject.map((token): unknown => child.resolve(token))) : child.resolve(adapterClass),
  };
}

function rejectHttpHost(): never {
  throw new Error("only transports get HTTP_HOST");
}

function describeBuildError(error: unknown, { useClass }: AdapterDescriptor): string {
  const message = reasonOf(error);
  return useClass && message.startsWith("TypeInfo not known")
    ? `the class ${useClass.name} needs @injectable() of the running gantry, not of another copy; or use create instead of useClass`
    : message;
}
