import type { Tool, ToolContext, ToolOutput } from "../../../ports/tool.js";
import type { CommandCheck, EditCheck } from "./command-check.js";
import { relativeTo } from "../files.js";
import type { QuickCommands } from "./quick-command.js";
import type { ShellOptions } from "../../shell/shell-command.js";

/** Settings of the checks after a tool has changed files. */
export interface EditChecksOptions {
  /** Whether new syntax errors are reported. */
  syntax: boolean;
  /** Commands that report errors of the project. */
  commands: readonly EditCheck[];
  /** Settings of the sandbox for `commands`. Undefined: no command may run. */
  commandOptions: ShellOptions | undefined;
  /** Time limit of each syntax check, in ms. */
  timeoutMs: number;
}

/** Checks files after tools have changed them and reports new errors to the model. */
export class EditChecks {
  readonly #options: EditChecksOptions;
  #commandRunner: QuickCommands | undefined;
  #commandChecks: CommandCheck[] | undefined;

  constructor(options: EditChecksOptions) {
    this.#options = options;
  }

  /** Wraps a tool so that its results include the new errors of its change. */
  wrap(tool: Tool): Tool {
    const { syntax, commands, commandOptions } = this.#options;
    if (!syntax && (commands.length === 0 || !commandOptions)) return tool;
    return {
      ...tool,
      run: async (args: unknown, context) => {
        const { projectDir } = context;
        const { locations } = tool.describe(args, projectDir);
        const paths = locations.map(({ path }) => relativeTo(path, projectDir));
        const checks = await this.#startChecks(paths, context);
        const output = await tool.run(args, context);
        if (output.failed === true) return output;
        const reports = await this.#createReports(output, checks, context);
        return reports.length === 0 ? output : { ...output, text: [output.text, ...reports].join("\n\n") };
      },
    };
  }

  async close(): Promise<void> {
    await this.#commandRunner?.close();
  }

  /** Returns reports of the new errors. Never rejects: the change is already made and must be reported. */
  async #createReports(output: ToolOutput, checks: readonly CommandCheck[], context: ToolContext): Promise<string[]> {
    const { syntax, timeoutMs } = this.#options;
    const reports: string[] = [];
    try {
      const changedFiles = syntax ? (output.diff ?? []) : [];
      if (changedFiles.length > 0) {
        const { findNewSyntaxFaults } = await import("./syntax-check.js");
        const lines = await findNewSyntaxFaults(changedFiles, timeoutMs, context);
        if (lines.length > 0) reports.push(`New syntax errors after this change:\n${lines.join("\n")}`);
      }
      for (const check of checks) {
        const report = await check.findNewOutput(context);
        if (report !== "") reports.push(report);
      }
    } catch {
      // The run was cancelled or a limit was reached: report what is known so far.
    }
    return reports;
  }

  /**
   * Starts the checks for these paths and records the current errors. Returns no check and never rejects if a check
   * fails: the failure must not prevent the change.
   */
  async #startChecks(paths: readonly string[], context: ToolContext): Promise<CommandCheck[]> {
    try {
      const checks = await this.#findChecks(paths, context.signal);
      for (const check of checks) await check.recordBaseline(context);
      return checks;
    } catch {
      return [];
    }
  }

  /**
   * Returns the checks whose glob matches one of these paths. Rejects with the signal's reason, or `WorkLimitError`.
   */
  async #findChecks(paths: readonly string[], signal: AbortSignal): Promise<CommandCheck[]> {
    const { commands, timeoutMs } = this.#options;
    const commandRunner = commands.length > 0 ? await this.#getRunner() : undefined;
    if (!commandRunner || paths.length === 0) return [];
    if (!this.#commandChecks) {
      const { CommandCheck } = await import("./command-check.js");
      this.#commandChecks ??= commands.map((check) => new CommandCheck(check, commandRunner));
    }
    const checks = this.#commandChecks;
    const globs = checks.map(({ files }) => files);
    const { withWorker } = await import("../../../untrusted/workers.js");
    const matchResults = await withWorker(signal, (thread) =>
      thread.runJob("globs", { globs, paths }, { ms: timeoutMs }),
    );
    return checks.filter((_check, i) => matchResults[i] === true);
  }

  async #getRunner(): Promise<QuickCommands | undefined> {
    const { commandOptions } = this.#options;
    if (!commandOptions) return undefined;
    const { QuickCommands } = await import("./quick-command.js");
    return (this.#commandRunner ??= new QuickCommands(commandOptions));
  }
}
