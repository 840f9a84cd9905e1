import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import type { Background } from "../../processes/background.js";
import type { Child } from "../../processes/child.js";
import type { DetachedProgram } from "../../processes/supervisor.js";
import { ProjectFolderError, ToolError } from "../../ports/errors.js";
import type { ToolContext } from "../../ports/tool.js";
import type { Sandbox, SandboxOptions } from "./sandbox/sandbox.js";

export interface BashToolOptions extends SandboxOptions {
  /** Default time limit of a command, in seconds. */
  timeout: number;
  /**
   * Secrets that are never shown to a model nor stored: gantry's own keys. Without a sandbox, commands can read them
   * from /proc.
   */
  secrets: Iterable<string>;
  /** The background commands of all sessions. */
  background: Background;
  /** Folder for long outputs, with one subfolder per session. Undefined: long outputs are not stored. */
  outputsPath?: string | undefined;
  /** Time to watch a background start before its call returns, in ms. Default: 700. */
  startMs?: number | undefined;
  /** Path of the shell, called as `<shell> -c <command>`. Default: bash, or sh if bash is missing. */
  shell?: string;
}

/** Linux limits one argument, and one variable including its name, to 128 KiB. 32 bytes are for the name. */
const MAX_COMMAND_BYTES = 128 * 1024 - 32;

/** A command that is ready to start. */
export interface PreparedCommand {
  /** Starts the command. Rejects with a `ToolError`, or with the signal's reason. */
  start(): Promise<Child>;
  /** Must be called after the command has ended. Removes forbidden entries and returns their paths. */
  tidy(): Promise<string[]>;
  /** Returns the program for a command that outlives this process. */
  program(): Promise<DetachedProgram>;
  readonly isSandboxed: boolean;
}

/**
 * Prepares a command. Rejects with a `ToolError` if the command cannot run. `input`: whether the command has a standard
 * input. Default: false.
 */
export async function prepareCommand(
  options: BashToolOptions,
  sandbox: Sandbox,
  command: string,
  { projectDir, folders, signal }: ToolContext,
  input = false,
): Promise<PreparedCommand> {
  if (command.includes("\0")) throw new ToolError("the command contains a NUL character. Remove it.");
  if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
    throw new ToolError("the command is longer than 128 KiB. Write it to a file with write, then run that file.");
  if (!(await stat(projectDir).catch(() => undefined))?.isDirectory()) throw new ProjectFolderError();
  const shell =
    options.shell ??
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find((path) => existsSync(path)) ??
    "/bin/sh";
  const preparedSandbox = await sandbox.prepare(projectDir, folders, input);
  return {
    isSandboxed: preparedSandbox !== undefined,
    start: async () => {
      try {
        signal.throwIfAborted();
        if (preparedSandbox) return await preparedSandbox.start(shell, command, input);
        return await startUnsandboxed(shell, command, projectDir, options.env, input);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        throw new ToolError(`the shell ${shell} could not be started: ${(error as Error).message}.`, { cause: error });
      }
    },
    program: async () => {
      if (preparedSandbox) return preparedSandbox.program(shell, command);
      const { INPUT_ENV: inputEnv } = await import("./sandbox/sandbox-starter.js");
      return { ...toProgram(shell, command), cwd: projectDir, env: { ...options.env, ...inputEnv }, startupText: "" };
    },
    tidy: async () => (await preparedSandbox?.tidy()) ?? [],
  };
}

/** Starts a command without a sandbox. Both output streams share one pipe, so that their order is preserved. */
async function startUnsandboxed(
  shell: string,
  command: string,
  cwd: string,
  env: BashToolOptions["env"],
  input: boolean,
): Promise<Child> {
  const [{ Child }, { INPUT_ENV: inputEnv }] = await Promise.all([
    import("../../processes/child.js"),
    import("./sandbox/sandbox-starter.js"),
  ]);
  return Child.start({
    ...toProgram(shell, command),
    cwd,
    env: input ? { ...env, ...inputEnv } : env,
    hasInput: input,
  });
}

function toProgram(shell: string, command: string): { file: string; args: string[] } {
  return { file: "/bin/sh", args: ["-c", 'exec "$@" 2>&1', "sh", shell, "-c", command] };
}
