import { ConfigError } from "../ports/errors.js";

/** Rejects words after the name of a command that takes flags only. Throws `ConfigError`. */
export function refuseArguments(args: readonly string[]): void {
  if (args.length > 0) throw new ConfigError(`unexpected argument ${args[0]}; see gantry --help`);
}
