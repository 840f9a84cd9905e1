import "reflect-metadata";
import type { InjectionToken } from "tsyringe";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Tool } from "../ports/tool.js";
import type { HttpHost } from "../ports/http-host.js";
import type { Transport } from "./transport.js";

/** The decorators of tsyringe, from our copy of it: two copies do not see each other's metadata. */
export { inject, injectable } from "tsyringe";

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
  "compaction-strategy": CompactionStrategy;
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

/** The default export of an adapter's module. */
export interface AdapterDescriptor<Kind extends AdapterKind = AdapterKind, Options = unknown> {
  readonly gantry: 1;
  readonly kind: Kind;
  readonly name: string;
  /** Check and complete raw options (plain JSON). Throws `ConfigError` with a message that begins with `context.where`, names the key and says what was expected. */
  parse(raw: Readonly<Record<string, unknown>>, context: OptionsContext): Options;
  /** The class to build; every constructor parameter carries `@inject(TOKEN)`, or has its token in `needs`. */
  readonly use: new (...args: never[]) => AdapterKinds[Kind];
  /** Tokens of the constructor's parameters, in order: for plain JavaScript, which has no decorators. */
  readonly needs?: readonly InjectionToken[];
}

/** Describe an adapter, for `export default`. */
export function defineAdapter<Kind extends AdapterKind, Options>(
  descriptor: Omit<AdapterDescriptor<Kind, Options>, "gantry">,
): AdapterDescriptor<Kind, Options> {
  return { gantry: 1, ...descriptor };
}
