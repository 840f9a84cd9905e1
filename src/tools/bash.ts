import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { ProjectFolderError, ToolError } from "../ports/errors.js";
import type { Tool, ToolContext, ToolOutput } from "../ports/tool.js";
import { Redactor } from "../base/redact.js";
import { defineArguments, integer, optional, text } from "./arguments.js";
import type { Child, ChildEnd } from "../processes/child.js";
import { defineTool } from "./define-tool.js";
import type { Sandbox, SandboxOptions } from "./sandbox.js";
import { LiveOutput, tidy } from "./shell-output.js";
import { cutMiddle, HeadTail, MODEL_BYTES } from "../base/cut-text.js";

export interface BashToolOptions extends SandboxOptions {
  /** Default seconds a command may take. */
  timeout: number;
  /** Never shown to a model, nor stored, where a command finds them out: our own keys, which `/proc` tells without a sandbox. */
  secrets: Iterable<string>;
  /** Path of the shell, called as `<shell> -c <command>`. Left out: bash, else sh. */
  shell?: string;
}

/** Longest time-out that a model can ask for, in seconds, unless the configured one is longer. */
const MAX_TIMEOUT = 600;
/** Linux takes at most 128 KiB in one argument, or in one variable with its name. */
const MAX_COMMAND_BYTES = 128 * 1024 - 32;
/** Kept of the output before it is tidied and cut to what a model is shown. */
const KEPT_BYTES = 2 * MODEL_BYTES;

/** Runs shell commands in the project folder. */
export function bashTool(options: BashToolOptions): Tool {
  let sandbox: Sandbox | undefined;
  const redactor = new Redactor(() => options.secrets);
  const longest = Math.max(MAX_TIMEOUT, options.timeout);
  const schema = defineArguments({
    command: text("Shell command.", { minLength: 1, aliases: ["cmd", "script"] }),
    timeout: optional(
      integer(`Seconds until it is stopped; default ${options.timeout}.`, { min: 1, max: longest }),
      options.timeout,
    ),
  });
  const tool = defineTool({
    name: "bash",
    description:
      "Run a shell command. Each call is a new shell in the project folder, without input or terminal; " +
      "everything it started ends with it. Shows output and exit code; of long output beginning and end.",
    schema,
    kind: "execute",
    describe: ({ command }) => {
      const line = command.trim().replace(/\s*\n\s*/g, " ⏎ ");
      return line.length > 200 ? `${line.slice(0, 199)}…` : line;
    },
    run: async ({ command, timeout }, context) => {
      if (sandbox === undefined) {
        const { Sandbox } = await import("./sandbox.js");
        sandbox ??= new Sandbox(options);
      }
      return execute({ ...options, redactor }, sandbox, command, timeout, context);
    },
  });
  return { ...tool, close: async () => sandbox?.close() };
}

async function execute(
  options: BashToolOptions & { redactor: Redactor },
  sandbox: Sandbox,
  command: string,
  timeout: number,
  context: ToolContext,
): Promise<ToolOutput> {
  const { projectDir, signal } = context;
  if (command.includes("\0")) throw new ToolError("the command holds a NUL character. Leave it out.");
  if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
    throw new ToolError("the command is longer than 128 KiB. Write it to a file with write, then run that file.");
  if (!(await stat(projectDir).catch(() => undefined))?.isDirectory()) throw new ProjectFolderError();

  const shell =
    options.shell ??
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find((path) => existsSync(path)) ??
    "/bin/sh";
  const held = await sandbox.prepare(projectDir, context.folders);
  const { redactor } = options;
  const output = new HeadTail(KEPT_BYTES, { clean: (said) => redactor.hide(tidy(said)), reach: redactor.reach });
  const live = new LiveOutput(redactor, (said) => context.progress(said));
  const onOutput = (chunk: Buffer): void => {
    output.push(chunk);
    live.push(chunk);
  };
  let end: ChildEnd;
  try {
    signal.throwIfAborted();
    const child = held ? await held.start(shell, command) : await startPlain(shell, command, projectDir, options.env);
    end = await child.run({ timeoutMs: timeout * 1000, signal, onOutput });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new ToolError(`the shell ${shell} could not be started: ${(error as Error).message}.`, { cause: error });
  } finally {
    live.end();
  }
  const removed = (await held?.tidy()) ?? [];
  if (end.why === "abort") throw signal.reason;
  const said = output.text();
  const notes = [howItEnded(end, timeout)];
  if (end.leftBehind) notes.push("[processes that it left in the background were ended: they cannot outlive the call]");
  if (held !== undefined && end.code !== 0) notes.push(...hints(said, sandbox));
  if (removed.length > 0) notes.push(`[removed again, because git would run or read it: ${removed.join(", ")}]`);
  const shown = cutMiddle(said, MODEL_BYTES, "redirect to a file and read parts of it to see more");
  return {
    text: [shown.replace(/\n+$/, "") || "(no output)", ...notes].join("\n"),
    failed: end.why !== "exit" || end.code !== 0,
  };
}

/** Both its outputs go down one pipe: two would lose the order in which things were said. */
async function startPlain(shell: string, command: string, cwd: string, env: BashToolOptions["env"]): Promise<Child> {
  const { Child } = await import("../processes/child.js");
  return Child.start({ file: "/bin/sh", args: ["-c", 'exec "$@" 2>&1', "sh", shell, "-c", command], cwd, env });
}

/** What a refusal of the sandbox looks like from inside, in words that help on. */
function hints(said: string, sandbox: Sandbox): string[] {
  const notes: string[] = [];
  if (/Read-only file system|EROFS/.test(said))
    notes.push("[commands may write only to the project folder, /tmp and tools.allow_paths]");
  if (/\.git\/(config|hooks|worktrees)\b.*(busy|Read-only)|could not (lock|write) config file/i.test(said))
    notes.push("[settings and hooks of git cannot be changed by commands; the user can]");
  if (
    !sandbox.network &&
    /EAI_AGAIN|ENETUNREACH|Could not resolve|Temporary failure in name|unreachable|getaddrinfo/i.test(said)
  )
    notes.push("[commands have no network here; the user can allow it with tools.bash.network]");
  if (
    /gpg failed to sign|error connecting to (the )?agent|Could not open a connection to your authentication agent/i.test(
      said,
    )
  )
    notes.push("[keys and agents of the user are out of reach; commit without a signature, or let the user do it]");
  return notes;
}

function howItEnded(end: ChildEnd, timeout: number): string {
  if (end.why === "timeout")
    return `[stopped after ${timeout} s, with all that it started; set timeout for more, or do less in one call]`;
  return end.signal === null ? `[exit code ${end.code}]` : `[ended by ${end.signal}]`;
}
