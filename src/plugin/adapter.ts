import type { InjectionToken } from "tsyringe";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import type { HookSet } from "../ports/hooks.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { PermissionPolicy } from "../ports/permission-policy.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Tool } from "../ports/tool.js";
import type { ToolSource } from "../ports/tool-source.js";
import type { HttpHost } from "../ports/http-host.js";
import type { StandardSchema } from "../tools/standard-schema.js";
import { read, section } from "./options.js";
import type { Transport } from "./transport.js";

/** The adapter's own parsed options, as its `parse` returned them. */
export const OPTIONS: InjectionToken<unknown> = Symbol.for("gantry.options");
/** A `Logger` that names the adapter. */
export const LOGGER: InjectionToken<Logger> = Symbol.for("gantry.logger");
/** Absolute path of gantry's home folder, which exists. */
export const HOME: InjectionToken<string> = Symbol.for("gantry.home");
/** The shared `HttpHost`; only transports get it. */
export const HTTP_HOST: InjectionToken<HttpHost> = Symbol.for("gantry.http-host");

/** What an adapter is, by kind. */
export interface AdapterKinds {
  transport: Transport;
  "session-driver": SessionDriver;
  "model-provider": ModelProvider;
  tool: Tool;
  "tool-source": ToolSource;
  "compaction-strategy": CompactionStrategy;
  "permission-policy": PermissionPolicy;
  hooks: HookSet;
}
/** The kinds of adapters. */
export type AdapterKind = keyof AdapterKinds;

/** What an adapter's `parse` is told beside the raw options. */
export interface OptionsContext {
  /** Start of every error message: file and key path. */
  readonly where: string;
  /** Folder of the config file; relative paths in options start here. */
  readonly configDir: string;
  readonly home: string;
  /** The folder that the server works on. */
  readonly projectDir: string;
}

/** What an adapter is made from, beside its options. */
export interface AdapterContext<Kind extends AdapterKind = AdapterKind> extends OptionsContext {
  /** Names the adapter. */
  readonly logger: Logger;
  /** The port that all HTTP transports share; it opens with the first mount. */
  readonly http: Kind extends "transport" ? HttpHost : undefined;
  /** What clients may use beside the project: `tools.allow_paths`, as absolute paths. */
  readonly allowPaths: readonly string[];
  /** What no client may reach through gantry: its home, the config, the store. Absolute paths. */
  readonly deniedPaths: readonly string[];
  /** Whether what comes with packages, prices for instance, may be brought up to date from the network: unless `catalogue.refresh` is false. */
  readonly refreshes?: boolean;
}

/** What an author says of an adapter. */
export interface AdapterDefinition<Kind extends AdapterKind, Options> {
  readonly kind: Kind;
  readonly name: string;
  /** What options there are: an `option.section`, or a schema of any Standard Schema library. Without it and `parse` there are none. */
  readonly schema?: StandardSchema<Options> | undefined;
  /** In place of a schema: check and complete raw options (plain JSON). Throws with a message that begins with `context.where`, names the key and says what was expected. */
  parse?: ((raw: Readonly<Record<string, unknown>>, context: OptionsContext) => Options) | undefined;
  /** Make it. Nothing is opened yet. */
  create?:
    ((options: Options, context: AdapterContext<Kind>) => AdapterKinds[Kind] | Promise<AdapterKinds[Kind]>) | undefined;
  /** In place of `create`: the class to build; every constructor parameter carries `@inject(TOKEN)`, or has its token in `needs`. */
  readonly use?: (new (...args: never[]) => AdapterKinds[Kind]) | undefined;
  /** Tokens of the constructor's parameters, in order: for plain JavaScript, which has no decorators. */
  readonly needs?: readonly InjectionToken[] | undefined;
}

/** The default export of an adapter's module. */
export interface AdapterDescriptor<Kind extends AdapterKind = AdapterKind, Options = unknown> extends AdapterDefinition<
  Kind,
  Options
> {
  readonly gantry: 1;
  parse(raw: Readonly<Record<string, unknown>>, context: OptionsContext): Options;
}

/** Describe an adapter, for `export default`. */
export function defineAdapter<Kind extends AdapterKind, Options = Record<never, never>>(
  definition: AdapterDefinition<Kind, Options>,
): AdapterDescriptor<Kind, Options> {
  const { schema = section({}) as StandardSchema<unknown> as StandardSchema<Options> } = definition;
  const { parse = (raw, { where }) => read(schema, raw, where) } = definition;
  return { ...definition, parse, gantry: 1 };
}
