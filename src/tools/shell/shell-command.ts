import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import type { Background } from "../../processes/background.js";
import type { Child } from "../../processes/child.js";
import type { KeptProgram } from "../../processes/supervisor.js";
import { ProjectFolderError, ToolError } from "../../ports/errors.js";
import type { ToolContext } from "../../ports/tool.js";
import type { Sandbox, SandboxOptions } from "./sandbox/sandbox.js";

export interface BashToolOptions extends SandboxOptions {
  /** Default seconds a command may take. */
  timeout: number;
  /** Never shown to a model, nor stored, where a command finds them out: our own keys, which `/proc` tells without a sandbox. */
  secrets: Iterable<string>;
  /** Where commands go on in the background. */
  background: Background;
  /** Folder for long outputs, one folder in it for each session; left out: they are kept nowhere. */
  outputsPath?: string | undefined;
  /** How long a start in the background is watched before its call ends, in ms. Default 700. */
  startMs?: number | undefined;
  /** Path of the shell, called as `<shell> -c <command>`. Left out: bash, else sh. */
  shell?: string;
}

/** Linux takes at most 128 KiB in one argument, or in one variable with its name. */
const MAX_COMMAND_BYTES = 128 * 1024 - 32;

/** A command that may be started. */
export interface PreparedCommand {
  /** Rejects with a `ToolError`. */
  start(): Promise<Child>;
  /** Once it has ended. Returns paths of what was taken away again. */
  tidy(): Promise<string[]>;
  /** What it takes to start it so that it outlives this process. */
  program(): Promise<KeptProgram>;
  readonly isSandboxed: boolean;
}

/** Makes a command ready. Rejects with a `ToolError` where it cannot be one. `input`: it is given a standard input. */
export async function prepareCommand(
  options: BashToolOptions,
  sandbox: Sandbox,
  command: string,
  { projectDir, folders, signal }: ToolContext,
  input = false,
): Promise<PreparedCommand> {
  if (command.includes("\0")) throw new ToolError("the command holds a NUL character. Leave it out.");
  if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
    throw new ToolError("the command is longer than 128 KiB. Write it to a file with write, then run that file.");
  if (!(await stat(projectDir).catch(() => undefined))?.isDirectory()) throw new ProjectFolderError();
  const shell =
    options.shell ??
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find((path) => existsSync(path)) ??
    "/bin/sh";
  const held = await sandbox.prepare(projectDir, folders, input);
  return {
    isSandboxed: held !== undefined,
    start: async () => {
      try {
        signal.throwIfAborted();
        if (held) return await held.start(shell, command, input);
        return await startPlain(shell, command, projectDir, options.env, input);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        throw new ToolError(`the shell ${shell} could not be started: ${(error as Error).message}.`, { cause: error });
      }
    },
    program: async () => {
      if (held) return held.program(shell, command);
      const { WITH_INPUT } = await import("./sandbox/sandbox-starter.js");
      return { ...plain(shell, command), cwd: projectDir, env: { ...options.env, ...WITH_INPUT }, said: "" };
    },
    tidy: async () => (await held?.tidy()) ?? [],
  };
}

/** Both its outputs go down one pipe: two would lose the order in which things were said. */
async function startPlain(
  shell: string,
  command: string,
  cwd: string,
  env: BashToolOptions["env"],
  input: boolean,
): Promise<Child> {
  const [{ Child }, { WITH_INPUT }] = await Promise.all([
    import("../../processes/child.js"),
    import("./sandbox/sandbox-starter.js"),
  ]);
  return Child.start({ ...plain(shell, command), cwd, env: input ? { ...env, ...WITH_INPUT } : env, input });
}

function plain(shell: string, command: string): { file: string; args: string[] } {
  return { file: "/bin/sh", args: ["-c", 'exec "$@" 2>&1', "sh", shell, "-c", command] };
}
