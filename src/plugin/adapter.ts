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

/** The adapter's own options, as its `parse` returned them. */
export const OPTIONS: InjectionToken<unknown> = Symbol.for("gantry.options");
/** A `Logger` that adds the adapter's name. */
export const LOGGER: InjectionToken<Logger> = Symbol.for("gantry.logger");
/** Absolute path of gantry's home folder. The folder exists. */
export const HOME: InjectionToken<string> = Symbol.for("gantry.home");
/** The shared `HttpHost`. Available to transports only. */
export const HTTP_HOST: InjectionToken<HttpHost> = Symbol.for("gantry.http-host");

/** The interface that adapters of each kind implement. */
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
/** The kinds of adapters that a config can select. */
export type AdapterKind = keyof AdapterKinds;

/** Context for an adapter's `parse`. */
export interface OptionsContext {
  /** Prefix of every error message: file and key path. */
  readonly location: string;
  /** Folder of the config file, the base of relative paths in options. */
  readonly configDir: string;
  /** Absolute path of gantry's home folder. */
  readonly home: string;
  /** Project folder of the server. */
  readonly projectDir: string;
}

/** Context for an adapter's `create`. */
export interface AdapterContext<Kind extends AdapterKind = AdapterKind> extends OptionsContext {
  /** A logger that adds the adapter's name. */
  readonly logger: Logger;
  /** The HTTP listener that all HTTP transports share. It starts to listen at the first mount. */
  readonly http: Kind extends "transport" ? HttpHost : undefined;
  /** Folders outside the project that clients may use (`tools.allow_paths`), as absolute paths. */
  readonly allowPaths: readonly string[];
  /** Paths that no client may reach through gantry: its home, the config, the store. Absolute. */
  readonly deniedPaths: readonly string[];
  /** Whether packaged data, such as prices, may be updated from the network (`catalogue.refresh`). Default false. */
  readonly canRefresh?: boolean;
  /** Environment variables for programs that the adapter starts: those of tool processes. Default none. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Definition of an adapter by its author. */
export interface AdapterDefinition<Kind extends AdapterKind, Options> {
  readonly kind: Kind;
  /** Name in log lines. */
  readonly name: string;
  /**
   * Schema of the options: an `option.section`, or a schema of any Standard Schema library. Without `schema` and
   * `parse` the adapter has no options.
   */
  readonly schema?: StandardSchema<Options> | undefined;
  /**
   * Replaces `schema`: validates raw options (plain JSON) and fills in defaults. Throws an error whose message begins
   * with `context.location` and names the key and the expected value.
   */
  parse?: ((raw: Readonly<Record<string, unknown>>, context: OptionsContext) => Options) | undefined;
  /** Creates the adapter without opening anything. */
  create?:
    ((options: Options, context: AdapterContext<Kind>) => AdapterKinds[Kind] | Promise<AdapterKinds[Kind]>) | undefined;
  /**
   * Replaces `create`: the class to instantiate. Each constructor parameter has `@inject(TOKEN)`, or its token in
   * `inject`.
   */
  readonly useClass?: (new (...args: never[]) => AdapterKinds[Kind]) | undefined;
  /** Tokens of the constructor's parameters, in order. For plain JavaScript, which has no decorators. */
  readonly inject?: readonly InjectionToken[] | undefined;
}

/** The default export of an adapter's module. */
export interface AdapterDescriptor<Kind extends AdapterKind = AdapterKind, Options = unknown> extends AdapterDefinition<
  Kind,
  Options
> {
  /** Marks an object as a descriptor. Plugins without dependencies set it themselves. */
  readonly gantry: 1;
  parse(raw: Readonly<Record<string, unknown>>, context: OptionsContext): Options;
}

/** Returns the descriptor of an adapter, for `export default`. */
export function defineAdapter<Kind extends AdapterKind, Options = Record<never, never>>(
  definition: AdapterDefinition<Kind, Options>,
): AdapterDescriptor<Kind, Options> {
  const { schema = section({}) as StandardSchema<unknown> as StandardSchema<Options> } = definition;
  const { parse = (raw, { location }) => read(schema, raw, location) } = definition;
  return { ...definition, parse, gantry: 1 };
}
