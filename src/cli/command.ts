import { read } from "../plugin/options.js";
import { ConfigError } from "../ports/errors.js";
import type { FlagsOf, FlagSpecs } from "./about.js";
import type { SERVING_FLAGS } from "./about/flags.js";
import { homeFolder, loadConfig, optionAt, type LoadedConfig } from "../serve/config.js";

/** Where a command writes; the command line gives its own streams. */
export interface Output {
  /** Text for stdout, as it is; resolves when the reader has taken it, rejects when there is no reader any more. */
  write(text: string): Promise<void>;
  /** A line for people on stderr. */
  tell(line: string): void;
  /** The width of the terminal that stderr is; undefined where it is none. */
  readonly columns: number | undefined;
  /** Text for that terminal, as it is. */
  draw(text: string): void;
  /** Whether stdout is a terminal too. */
  readonly isShown: boolean;
  /** From now on what libraries print goes to stderr: stdout speaks a protocol. */
  keepStdoutClean(): void;
}

/** What a command reads; the command line gives its own stream. */
export interface Input extends AsyncIterable<Uint8Array> {
  /** In all, where it is a file. */
  readonly bytes: number | undefined;
  /** Whether somebody types there. */
  readonly isTerminal: boolean;
}

export interface CommandContext<F extends FlagSpecs = FlagSpecs> {
  /** The command's name, `sessions list`. */
  readonly name: string;
  /** What stands behind the name. */
  readonly args: readonly string[];
  readonly flags: FlagsOf<F>;
  readonly input: Input;
  readonly output: Output;
  /** From now on a signal that would end the process aborts this instead, with its name; a second one ends it. */
  interrupted(): AbortSignal;
}

/** Does its work and resolves with the exit code; undefined: the process lives on by itself. A rejection is one line on stderr and exit code 1. */
export type Command<F extends FlagSpecs = FlagSpecs> = (context: CommandContext<F>) => Promise<number | undefined>;

/** The flags that `loadFor` makes something of. */
export type ConfigFlags = Partial<FlagsOf<typeof SERVING_FLAGS>>;

/** The config with the flags over it; `more`: what else is set, by its key. Rejects with `ConfigError`. */
export async function loadFor(
  flags: ConfigFlags,
  more: Readonly<Record<string, { flag: string; value: unknown }>> = {},
): Promise<{ loaded: LoadedConfig; home: string }> {
  if (flags.stdio && !flags.acp) throw new ConfigError("--stdio needs --acp");
  const port = flags.port !== undefined && /^\d+$/.test(flags.port) ? Number(flags.port) : flags.port;
  const transports = flags.acp
    ? [flags.stdio ? "acp-stdio" : "acp-http-sse-ws"]
    : (flags.transport?.length ?? 0) > 0
      ? flags.transport
      : undefined;
  const said: readonly (readonly [flag: string, key: string, value: unknown])[] = [
    ["--host", "server.host", flags.host],
    ["--port", "server.port", port],
    ["--transport", "server.transports", transports],
    ["--insecure", "server.insecure", flags.insecure || undefined],
    ["--session-driver", "session.driver", flags.sessionDriver],
    ["--acp-profile", "acp.profile", flags.acpProfile],
    ...Object.entries(more).map(([key, { flag, value }]) => [flag, key, value] as const),
  ];
  const overrides: Record<string, unknown> = {};
  for (const [flag, key, value] of said) {
    if (value === undefined) continue;
    read(await optionAt(key), value, flag);
    overrides[key] = value;
  }
  const home = homeFolder();
  const loaded = await loadConfig({ home, ...(flags.config === undefined ? {} : { path: flags.config }), overrides });
  return { loaded, home };
}
