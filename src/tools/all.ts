import type { Tool } from "../ports/tool.js";
import { processSecrets } from "../base/process-secrets.js";
import { Redactor } from "../base/redact.js";
import { applyPatchTool } from "./files/apply-patch.js";
import { askUserTool } from "./agent/ask-user.js";
import { Background } from "../processes/background.js";
import { bashTool } from "./shell/bash.js";
import { bashInputTool, bashOutputTool, bashStopTool } from "./shell/bash-background.js";
import { EditChecks } from "./files/checks/check-edits.js";
import type { EditCheck } from "./files/checks/command-check.js";
import { deleteTool } from "./files/delete.js";
import { editTool } from "./files/edit.js";
import { globTool } from "./files/glob.js";
import { grepTool } from "./files/grep.js";
import { withoutSecrets } from "./without-secrets.js";
import { listTool } from "./files/list.js";
import { multieditTool } from "./files/multiedit.js";
import { readTool } from "./files/read.js";
import { tidy } from "./shell/shell-output.js";
import { taskTool } from "./agent/task.js";
import { skillTool } from "./agent/skill.js";
import { todoreadTool, todowriteTool } from "./agent/todo.js";
import { webfetchTool } from "./web/webfetch.js";
import { writeTool } from "./files/write.js";

// With the tools themselves: by imports of their own they would be files more to load at every start.
export { sourceWithoutSecrets, withoutSecrets } from "./without-secrets.js";

/** What the built-in tools may do. Everything has a default. */
export interface BuiltinToolsOptions {
  /** Folders that file tools may use beside the project folder; absolute. Default none. */
  allowPaths?: readonly string[] | undefined;
  /** Never to be touched: gantry's home and its store; absolute. Default none. */
  deniedPaths?: readonly string[] | undefined;
  /** Files and folders that may be read and not changed; absolute. Default none. */
  readOnlyPaths?: readonly string[] | undefined;
  /**
   * Names that file tools do not change, at any depth: a file, or a folder with all below it; `*` for a part of a name.
   * `"*"` alone stands for what other programs run by themselves later (git, editors, shells), `!name` lifts. Default `["*"]`.
   */
  protectedPaths?: readonly string[] | undefined;
  /** The whole environment of commands. Default: a plain PATH alone. */
  env?: Readonly<Record<string, string>> | undefined;
  bash?:
    | {
        /** Default true. */
        enabled?: boolean | undefined;
        /** Seconds a command may take unless the model asks for another time. Default 120. */
        timeout?: number | undefined;
        /** Default `auto`: bubblewrap where it works. */
        sandbox?: "auto" | "required" | "off" | undefined;
        /** Whether commands in the sandbox reach the network. Default: not with `required`. */
        network?: boolean | undefined;
        /** Absolute path of a folder for the sandbox's temporary files. Default: they last as long as the command. */
        scratchPath?: string | undefined;
        /** Absolute path of a folder for outputs that are longer than what is shown of them. Default: they are cut and gone. */
        outputsPath?: string | undefined;
        /** Absolute path of a folder for commands that are to outlive this process. Default: none does. */
        keptPath?: string | undefined;
        /** How long a start in the background is watched before its call ends, in ms. Default 700. */
        startMs?: number | undefined;
      }
    | undefined;
  /** Hidden in what tools return, beside the secrets of this process's environment. Read at each call. Default none. */
  secrets?: Iterable<string> | undefined;
  /** What is looked at when a tool has changed a file; what is wrong since is told with its result. Commands run as those of bash do. */
  checks?:
    | {
        /** Whether syntax errors are told that the change brought. Default true. */
        syntax?: boolean | undefined;
        /** Commands that tell what is wrong with the project; only what is new is told. Default none. */
        commands?: readonly EditCheck[] | undefined;
        /** How long a look at the syntax may take, in ms. Default 2,000. */
        timeoutMs?: number | undefined;
      }
    | undefined;
  webfetch?:
    | {
        /** Whether loopback, private and link-local addresses may be fetched from. Default false. */
        allowPrivate?: boolean | undefined;
      }
    | undefined;
  task?:
    | {
        /** Model calls of a helper; the agent's own limit stands beside it. Default 50. */
        maxIterations?: number | undefined;
      }
    | undefined;
  /** Path of the shell for bash. Default bash, else sh. */
  shell?: string | undefined;
}

const PLAIN_ENV = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/** The tools of a coding agent. They run without asking; give an agent fewer of them to restrict it. */
export function builtinTools(options: BuiltinToolsOptions = {}): Tool[] {
  const {
    allowPaths = [],
    deniedPaths = [],
    readOnlyPaths = [],
    protectedPaths = ["*"],
    env = PLAIN_ENV,
    secrets: ownSecrets = [],
    shell,
  } = options;
  const {
    enabled = true,
    timeout = 120,
    sandbox = "auto",
    network,
    scratchPath,
    outputsPath,
    keptPath,
    startMs,
  } = options.bash ?? {};
  const variables = processSecrets();
  const secrets = { [Symbol.iterator]: () => [...ownSecrets, ...variables][Symbol.iterator]() };
  const redactor = new Redactor(() => secrets);
  const files = { allowPaths, deniedPaths, readOnlyPaths, protectedPaths, outputsPath };
  const clean = (said: string): string => redactor.hide(tidy(said));
  const background = new Background({ outputs: outputsPath, kept: keptPath }, redactor, clean);
  const commands = { ...{ ...files, env, sandbox, network, scratchPath }, ...(shell !== undefined && { shell }) };
  const { syntax = true, commands: checked = [], timeoutMs = 2_000 } = options.checks ?? {};
  const surroundings = enabled ? commands : undefined;
  const checks = new EditChecks({ syntax, commands: checked, surroundings, timeoutMs });
  const tools = [
    readTool(files),
    { ...checks.on(writeTool(files)), close: () => checks.close() },
    checks.on(editTool(files)),
    checks.on(multieditTool(files)),
    checks.on(applyPatchTool(files)),
    checks.on(deleteTool(files)),
    listTool(files),
    globTool(files),
    grepTool(files),
    ...(enabled
      ? [
          bashTool({
            ...{ ...files, env, secrets, timeout, sandbox, network, scratchPath, background, startMs },
            ...(shell === undefined ? {} : { shell }),
          }),
          bashOutputTool(background),
          bashInputTool(background),
          bashStopTool(background),
        ]
      : []),
    webfetchTool({ allowPrivate: options.webfetch?.allowPrivate ?? false }),
    todowriteTool(),
    todoreadTool(),
    askUserTool(),
    taskTool(options.task),
    skillTool(files),
  ];
  return tools.map((tool) => withoutSecrets(tool, redactor));
}
