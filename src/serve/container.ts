import "reflect-metadata";
import { container } from "tsyringe";
import { isRecord } from "../base/json.js";
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
import { AdapterError } from "../ports/errors.js";

/** A part of the class that its descriptor names, its constructor's parameters by their tokens. */
export function resolvePart<Kind extends AdapterKind>(
  { kind, name, use, needs }: AdapterDescriptor<Kind>,
  options: unknown,
  context: AdapterContext<Kind>,
  where: string,
): AdapterKinds[Kind] {
  if (!use) throw new AdapterError(`${where}: ${name} says neither create nor use in its descriptor`);
  const tokens: unknown = Reflect.getOwnMetadata("injectionTokens", use) ?? {};
  // A parameter without a token would silently be undefined.
  const told = (i: number) => (needs ? i < needs.length : isRecord(tokens) && i in tokens);
  if (!Array.from({ length: use.length }, (_, i) => told(i)).every(Boolean)) {
    throw new AdapterError(
      `${where}: ${name}: every parameter of the constructor of ${use.name} needs @inject(TOKEN), ` +
        "or a token in `needs` of its descriptor",
    );
  }
  const child = container.createChildContainer();
  child.registerInstance(OPTIONS, options);
  child.registerInstance(LOGGER, context.logger);
  child.registerInstance(HOME, context.home);
  // Only who asks for the port makes one.
  if (kind === "transport") child.register<unknown>(HTTP_HOST, { useFactory: () => context.http });
  if (!needs) return child.resolve(use as new (...args: unknown[]) => AdapterKinds[Kind]);
  const parts = needs.map((token): unknown => child.resolve(token));
  return new (use as new (...args: unknown[]) => AdapterKinds[Kind])(...parts);
}
