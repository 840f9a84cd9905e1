import { existsSync } from "node:fs";
import type { ToolContext } from "../../../ports/tool.js";
import type { Sandbox, SandboxOptions } from "../../shell/sandbox/sandbox.js";

/** Maximum output that is kept, in bytes. The last chunk may exceed it. */
const MAX_OUTPUT_BYTES = 512 * 1024;

/** The output and the exit code of a command. */
export interface QuickResult {
  output: string;
  /** Exit code. Null: stopped at the time limit, or ended in another way than by an exit. */
  code: number | null;
}

/** Runs commands that no tool call requested, in the same environment and sandbox as those of bash. */
export class QuickCommands {
  readonly #options: SandboxOptions & { shell?: string };
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: SandboxOptions & { shell?: string }) {
    this.#options = options;
  }

  /** Runs a command. Undefined if it cannot be started. Rejects only with the signal's reason. */
  async run(command: string, timeoutMs: number, context: ToolContext): Promise<QuickResult | undefined> {
    const { projectDir, folders, signal } = context;
    const { env, shell = ["/bin/bash", "/usr/bin/bash"].find((path) => existsSync(path)) ?? "/bin/sh" } = this.#options;
    const chunks: Buffer[] = [];
    let outputBytes = 0;
    const onOutput = (chunk: Buffer): void => {
      if (outputBytes < MAX_OUTPUT_BYTES) chunks.push(chunk);
      outputBytes += chunk.length;
    };
    try {
      const sandbox = await (this.#sandbox ??= import("../../shell/sandbox/sandbox.js").then(
        (sandboxModule) => new sandboxModule.Sandbox(this.#options),
      ));
      const sandboxedCommand = await sandbox.prepare(projectDir, folders);
      const { Child } = await import("../../../processes/child.js");
      const unsandboxedArgs = ["-c", 'exec "$@" 2>&1', "sh", shell, "-c", command];
      const child = sandboxedCommand
        ? await sandboxedCommand.start(shell, command)
        : await Child.start({ file: "/bin/sh", args: unsandboxedArgs, cwd: projectDir, env });
      const end = await child.run({ timeoutMs, signal, onOutput });
      await sandboxedCommand?.tidy();
      if (end.sandboxFault !== undefined) return undefined;
      const output = Buffer.concat(chunks).toString();
      return { output, code: end.reason === "exit" ? end.code : null };
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  async close(): Promise<void> {
    await (await this.#sandbox?.catch(() => undefined))?.close();
  }
}
