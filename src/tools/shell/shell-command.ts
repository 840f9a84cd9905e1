import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import type { Background } from "../../processes/background.js";
import type { Child, ChildEnd } from "../../processes/child.js";
import type { DetachedProgram } from "../../processes/supervisor.js";
import { ProjectFolderError, ToolError } from "../../ports/errors.js";
import type { ToolContext } from "../../ports/tool.js";
import type { AppliedLimits, CommandLimits } from "./command-limits.js";
import type { Sandbox, SandboxOptions, LimitedCommand } from "./sandbox/sandbox.js";

/** How commands run. */
export interface ShellOptions extends SandboxOptions {
  /** Path of the shell, called as `<shell> -c <command>`. Default: bash, or sh if bash is missing. */
  shell?: string | undefined;
  /** Default: no limits. */
  limits?: CommandLimits | undefined;
}

export interface BashToolOptions extends ShellOptions {
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
}

/** Linux limits one argument, and one variable including its name, to 128 KiB. 32 bytes are for the name. */
const MAX_COMMAND_BYTES = 128 * 1024 - 32;

/** A command that is ready to start. */
export interface PreparedCommand {
  /** Starts the command. Rejects with a `ToolError`, or with the signal's reason. */
  start(): Promise<Child>;
  /**
   * Must be called after the command has ended, with its output. Releases its resources, removes forbidden entries and
   * returns notes for the model.
   */
  tidy(end: Pick<ChildEnd, "code" | "signal">, output: string): Promise<string[]>;
  /** Returns the program for a command that outlives this process. */
  program(): Promise<DetachedProgram>;
  readonly isSandboxed: boolean;
}

/**
 * Prepares a command. Rejects with a `ToolError` if the command cannot run. `input`: whether the command has a standard
 * input. Default: false.
 */
export async function prepareCommand(
  options: ShellOptions,
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
  let limits: AppliedLimits | undefined;
  const applyLimits = async (): Promise<AppliedLimits | undefined> => {
    if (options.limits === undefined || Object.values(options.limits).every((limit) => limit === undefined)) return;
    const { AppliedLimits } = await import("./command-limits.js");
    return (limits = new AppliedLimits(options.limits, preparedSandbox?.overhead));
  };
  return {
    isSandboxed: preparedSandbox !== undefined,
    start: async () => {
      try {
        signal.throwIfAborted();
        await applyLimits();
        if (preparedSandbox) return await preparedSandbox.start({ shell, command, limits }, input);
        return await startUnsandboxed({ shell, command, limits }, projectDir, options.env, input);
      } catch (error) {
        await limits?.end({ code: null, signal: null }, "");
        if (signal.aborted) throw signal.reason;
        if (error instanceof ToolError) throw error;
        throw new ToolError(`the shell ${shell} could not be started: ${(error as Error).message}.`, { cause: error });
      }
    },
    program: async () => {
      await applyLimits();
      try {
        if (preparedSandbox) return preparedSandbox.program({ shell, command, limits });
      } catch (error) {
        await limits?.end({ code: null, signal: null }, "");
        throw error;
      }
      const { INPUT_ENV: inputEnv } = await import("./sandbox/sandbox-starter.js");
      return {
        ...toProgram({ shell, command, limits }),
        cwd: projectDir,
        env: { ...options.env, ...inputEnv },
        startupText: "",
      };
    },
    tidy: async (end, output) => [
      ...((await limits?.end(end, output)) ?? []),
      ...((await preparedSandbox?.tidy()) ?? []),
    ],
  };
}

/** Starts a command without a sandbox. Both output streams share one pipe, so that their order is preserved. */
async function startUnsandboxed(
  command: LimitedCommand,
  cwd: string,
  env: BashToolOptions["env"],
  input: boolean,
): Promise<Child> {
  const [{ Child }, { INPUT_ENV: inputEnv }] = await Promise.all([
    import("../../processes/child.js"),
    import("./sandbox/sandbox-starter.js"),
  ]);
  return Child.start({
    ...toProgram(command),
    cwd,
    env: input ? { ...env, ...inputEnv } : env,
    hasInput: input,
  });
}

function toProgram({ shell, command, limits }: LimitedCommand): { file: string; args: string[] } {
  const script = `${limits?.joinScript ?? ""}${limits?.script ?? ""}exec "$@" 2>&1`;
  return { file: "/bin/sh", args: ["-c", script, "sh", shell, "-c", command] };
}
