import type { Logger } from "../ports/logger.js";
import type { Tool } from "../ports/tool.js";
import { processSecrets } from "../base/process-secrets.js";
import { Redactor } from "../base/redact.js";
import { applyPatchTool } from "./files/apply-patch.js";
import { askUserTool } from "./agent/ask-user.js";
import { Background } from "../processes/background.js";
import { bashTool } from "./shell/bash.js";
import type { CommandLimits } from "./shell/command-limits.js";
import type { BashToolOptions } from "./shell/shell-command.js";
import { bashInputTool, bashOutputTool, bashStopTool } from "./shell/bash-background.js";
import { EditChecks } from "./files/checks/check-edits.js";
import type { EditCheck } from "./files/checks/command-check.js";
import { deleteTool } from "./files/delete.js";
import { editTool } from "./files/edit.js";
import { globTool } from "./files/glob.js";
import { grepTool } from "./files/grep.js";
import { redactTools } from "./redacted-tools.js";
import { listTool } from "./files/list.js";
import { multieditTool } from "./files/multiedit.js";
import { readTool } from "./files/read.js";
import { cleanOutput } from "./shell/shell-output.js";
import { taskTool } from "./agent/task.js";
import { skillTool } from "./agent/skill.js";
import { todoreadTool, todowriteTool } from "./agent/todo.js";
import { webfetchTool } from "./web/webfetch.js";
import { websearchTool } from "./web/websearch.js";
import type { WebSearchOptions } from "./web/web-search.js";
import { writeTool } from "./files/write.js";

// Exported here and not imported separately, to avoid loading more files at every start.
export { redactToolSource, redactTools } from "./redacted-tools.js";

/** Options of the built-in tools. Everything has a default. */
export interface BuiltinToolsOptions {
  /** Absolute paths of folders that file tools may use, beside the project folder. Default: none. */
  allowPaths?: readonly string[] | undefined;
  /** Absolute paths that are never accessed: gantry's home and store. Default: none. */
  deniedPaths?: readonly string[] | undefined;
  /** Absolute paths of files and folders that may be read but not changed. Default: none. */
  readOnlyPaths?: readonly string[] | undefined;
  /**
   * Names that file tools do not change, at any depth: a file, or a folder with everything below it. `*` matches a part
   * of a name.
   *
   * `"*"` alone stands for the built-in list: files that other programs run automatically later (Git, editors, shells).
   * `!name` lifts a protection. Default: `["*"]`.
   */
  protectedPaths?: readonly string[] | undefined;
  /** Complete environment of commands. Default: only a standard PATH. */
  env?: Readonly<Record<string, string>> | undefined;
  bash?:
    | {
        /** Whether the `bash` tools are offered. Default: true. */
        enabled?: boolean | undefined;
        /** Default time limit of a command, in seconds. The model can ask for another limit. Default: 120. */
        timeout?: number | undefined;
        /** `auto` uses bubblewrap if it works. Default: `auto`. */
        sandbox?: "auto" | "required" | "off" | undefined;
        /**
         * Whether commands in the sandbox can use the network. A list: they can reach only these hosts (`name`, `*.name`,
         * each with an optional port), and do not run without a sandbox. Default: false with `required`, otherwise true.
         */
        network?: boolean | readonly string[] | undefined;
        /** Limits of each command. Default: none. */
        limits?: CommandLimits | undefined;
        /** Receives a line for each host that is refused. Default: nothing is logged. */
        logger?: Logger | undefined;
        /**
         * Absolute path of a folder for the sandbox's temporary files. Default: the files are removed after each
         * command.
         */
        scratchPath?: string | undefined;
        /**
         * Absolute path of a folder for outputs that are longer than the shown part. Default: the omitted part is lost.
         */
        outputsPath?: string | undefined;
        /** Absolute path of a folder for commands that outlive this process. Default: no command does. */
        keptPath?: string | undefined;
        /** Time to watch a background start before its call returns, in ms. Default: 700. */
        startMs?: number | undefined;
      }
    | undefined;
  /**
   * Values to hide in tool results, in addition to secrets of this process's environment. Read at each call. Default:
   * none.
   */
  secrets?: Iterable<string> | undefined;
  /**
   * Checks after a tool has changed files. New errors are added to the tool's result. Commands run in the same sandbox
   * as those of bash.
   */
  checks?:
    | {
        /** Whether new syntax errors are reported. Default: true. */
        syntax?: boolean | undefined;
        /** Commands that report errors of the project. Only new lines are reported. Default: none. */
        commands?: readonly EditCheck[] | undefined;
        /** Time limit of a syntax check, in ms. Default: 2,000. */
        timeoutMs?: number | undefined;
      }
    | undefined;
  webfetch?:
    | {
        /** Whether loopback, private and link-local addresses may be fetched. Default: false. */
        allowPrivate?: boolean | undefined;
      }
    | undefined;
  /** The search service of `websearch`. Default: the tool is not offered. */
  webSearch?: WebSearchOptions | undefined;
  task?:
    | {
        /** Maximum model calls of a subagent. The agent's own limit applies too. Default: 50. */
        maxIterations?: number | undefined;
      }
    | undefined;
  /** Path of the shell for bash. Default: bash, or sh if bash is missing. */
  shell?: string | undefined;
}

const DEFAULT_ENV = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/**
 * Creates the built-in tools of a coding agent. The tools run without asking. Pass fewer tools to restrict an agent.
 */
export function builtinTools(options: BuiltinToolsOptions = {}): Tool[] {
  const {
    allowPaths = [],
    deniedPaths = [],
    readOnlyPaths = [],
    protectedPaths = ["*"],
    env = DEFAULT_ENV,
    secrets: configuredSecrets = [],
    shell,
  } = options;
  const environmentSecrets = processSecrets();
  const secrets = { [Symbol.iterator]: () => [...configuredSecrets, ...environmentSecrets][Symbol.iterator]() };
  const redactor = new Redactor(() => secrets);
  const { enabled = true, sandbox = "auto", network, limits, logger, scratchPath, outputsPath } = options.bash ?? {};
  const fileOptions = { allowPaths, deniedPaths, readOnlyPaths, protectedPaths, outputsPath };
  const commandOptions = {
    ...{ ...fileOptions, env, sandbox, network, limits, logger, scratchPath },
    ...(shell !== undefined && { shell }),
  };
  const { syntax = true, commands: checkCommands = [], timeoutMs = 2_000 } = options.checks ?? {};
  const sandboxOptions = enabled ? commandOptions : undefined;
  const checks = new EditChecks({ syntax, commands: checkCommands, commandOptions: sandboxOptions, timeoutMs });
  const tools = [
    readTool(fileOptions),
    { ...checks.wrap(writeTool(fileOptions)), close: () => checks.close() },
    checks.wrap(editTool(fileOptions)),
    checks.wrap(multieditTool(fileOptions)),
    checks.wrap(applyPatchTool(fileOptions)),
    checks.wrap(deleteTool(fileOptions)),
    listTool(fileOptions),
    globTool(fileOptions),
    grepTool(fileOptions),
    ...(enabled ? createBashTools({ ...commandOptions, secrets }, options.bash, redactor) : []),
    webfetchTool({ allowPrivate: options.webfetch?.allowPrivate ?? false }),
    ...(options.webSearch ? [websearchTool(options.webSearch)] : []),
    todowriteTool(),
    todoreadTool(),
    askUserTool(),
    taskTool(options.task),
    skillTool(fileOptions),
  ];
  return tools.map((tool) => redactTools(tool, redactor));
}

function createBashTools(
  commandOptions: Omit<BashToolOptions, "timeout" | "background" | "startMs">,
  { timeout = 120, keptPath, startMs }: NonNullable<BuiltinToolsOptions["bash"]> = {},
  redactor: Redactor,
): Tool[] {
  const cleanText = (output: string): string => redactor.hide(cleanOutput(output));
  const folders = { outputs: commandOptions.outputsPath, detached: keptPath };
  const background = new Background(folders, redactor, cleanText);
  return [
    bashTool({ ...commandOptions, timeout, background, startMs }),
    bashOutputTool(background),
    bashInputTool(background),
    bashStopTool(background),
  ];
}
