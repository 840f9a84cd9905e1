import { read } from "../plugin/options.js";
import { ConfigError } from "../ports/errors.js";
import type { FlagsOf, FlagSpecs } from "./command-description.js";
import type { SERVING_FLAGS } from "./descriptions/flags.js";
import { getHomeFolder, loadConfig, findOption, type LoadedConfig } from "../serve/config.js";

/** Output of a command. The entry point uses the streams of the process. */
export interface CommandOutput {
  /** Writes text to stdout unchanged. Resolves after the write; rejects if the reader has closed the stream. */
  write(text: string): Promise<void>;
  /** Writes a line to stderr, for the user. */
  report(line: string): void;
  /** Width of the terminal at stderr. Undefined if stderr is not a terminal. */
  readonly columns: number | undefined;
  /** Writes text to stderr unchanged, for terminal control. */
  draw(text: string): void;
  /** Whether stdout is a terminal. */
  readonly isStdoutTerminal: boolean;
  /** Redirects `console.log` of libraries to stderr, so that stdout contains only a protocol or JSON. */
  redirectConsoleToStderr(): void;
}

/** Input of a command. The entry point uses the stream of the process. */
export interface CommandInput extends AsyncIterable<Uint8Array> {
  /** Total size in bytes if the input is a file, otherwise undefined. */
  readonly fileBytes: number | undefined;
  /** Whether the input is a terminal. */
  readonly isTerminal: boolean;
}

/** Arguments, streams and signals of a command. */
export interface CommandContext<F extends FlagSpecs = FlagSpecs> {
  /** Full name of the command, such as `sessions list`. */
  readonly name: string;
  /** Words after the command's name. */
  readonly args: readonly string[];
  readonly flags: FlagsOf<F>;
  readonly input: CommandInput;
  readonly output: CommandOutput;
  /**
   * Handles SIGINT, SIGTERM and SIGHUP from now on. The first signal aborts the returned `AbortSignal`, with the
   * signal's name as reason. The second signal ends the process.
   */
  handleInterrupts(): AbortSignal;
}

/**
 * Runs a command and resolves with the exit code. With undefined, the process keeps running. A rejection prints one
 * line to stderr and sets exit code 1.
 */
export type CommandHandler<F extends FlagSpecs = FlagSpecs> = (
  context: CommandContext<F>,
) => Promise<number | undefined>;

/** The flags that `loadConfigWithFlags` applies. */
export type ConfigFlags = Partial<FlagsOf<typeof SERVING_FLAGS>>;

/**
 * Loads the config and applies the flags. `extraSettings` are further flags by config key. Returns the config and
 * gantry's home folder. Rejects with `ConfigError`.
 */
export async function loadConfigWithFlags(
  flags: ConfigFlags,
  extraSettings: Readonly<Record<string, { flag: string; value: unknown }>> = {},
): Promise<{ loadedConfig: LoadedConfig; home: string }> {
  if (flags.stdio && !flags.acp) throw new ConfigError("--stdio needs --acp");
  const port = flags.port !== undefined && /^\d+$/.test(flags.port) ? Number(flags.port) : flags.port;
  const transports = flags.acp
    ? [flags.stdio ? "acp-stdio" : "acp-http-sse-ws"]
    : (flags.transport?.length ?? 0) > 0
      ? flags.transport
      : undefined;
  const flagSettings: readonly (readonly [flag: string, key: string, value: unknown])[] = [
    ["--host", "server.host", flags.host],
    ["--port", "server.port", port],
    ["--transport", "server.transports", transports],
    ["--insecure", "server.insecure", flags.insecure || undefined],
    ["--session-driver", "session.driver", flags.sessionDriver],
    ["--acp-profile", "acp.profile", flags.acpProfile],
    ...Object.entries(extraSettings).map(([key, { flag, value }]) => [flag, key, value] as const),
  ];
  const overrides: Record<string, unknown> = {};
  for (const [flag, key, value] of flagSettings) {
    if (value === undefined) continue;
    read(await findOption(key), value, flag);
    overrides[key] = value;
  }
  const home = getHomeFolder();
  const loadedConfig = await loadConfig({
    home,
    ...(flags.config === undefined ? {} : { path: flags.config }),
    overrides,
  });
  return { loadedConfig, home };
}
