import { ConfigError } from "../ports/errors.js";

/** Throws `ConfigError` if there are arguments. For commands that accept flags only. */
export function refuseArguments(args: readonly string[]): void {
  if (args.length > 0) throw new ConfigError(`unexpected argument ${args[0]}; see gantry --help`);
}
