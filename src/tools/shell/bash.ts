import { isAbsolute } from "node:path";
import { ShuttingDownError, ToolError } from "../../ports/errors.js";
import type { Tool, ToolContext, ToolOutput } from "../../ports/tool.js";
import { monotonicMs } from "../../base/clock.js";
import { Redactor } from "../../base/redact.js";
import { shellQuote } from "../../base/shell-quote.js";
import { defineArguments, field, flag, hidden, integer, optional, text } from "../arguments.js";
import type { ChildEnd } from "../../processes/child.js";
import type { StoredOutput } from "../../processes/output-file.js";
import { defineTool } from "../define-tool.js";
import type { Sandbox } from "./sandbox/sandbox.js";
import { prepareCommand, type BashToolOptions } from "./shell-command.js";
import { LiveOutput, cleanOutput, describeOutputFile } from "./shell-output.js";
import { cutMiddle, HeadTail, MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

/** Maximum time limit that a model can request, in seconds. A longer configured default applies instead. */
const MAX_TIMEOUT_SECONDS = 600;
/** Bytes of output that are kept before the output is cleaned and shortened for the model. */
const MAX_RAW_BYTES = 2 * MAX_MODEL_TEXT_BYTES;
const MAX_TITLE_CHARACTERS = 200;

/** For models of codex, whose calls return after this time while the command still runs. */
const YIELD_NOTE =
  "[yield_time_ms has no effect: the call waited for the end of the command. Set background for a command that keeps running]";

/** Creates the tool `bash`, which runs shell commands in the project folder. */
export function bashTool(options: BashToolOptions): Tool {
  let sandbox: Sandbox | undefined;
  const redactor = new Redactor(() => options.secrets);
  const maxSeconds = Math.max(MAX_TIMEOUT_SECONDS, options.timeout);
  const tool = defineTool({
    name: "bash",
    description:
      "Run a command in a new shell, without input or terminal. Its processes end with the call, unless background is set.",
    schema: createArguments(options.timeout, maxSeconds),
    kind: "execute",
    describe: ({ command, workdir }) => formatTitle(command, workdir),
    run: async ({ command: line, workdir, timeout, timeout_ms: timeoutMs, background, detached, ...args }, context) => {
      const command = workdir === undefined ? line : createFolderScript(line, workdir);
      const timeLimit =
        timeoutMs === undefined ? toTimeLimit(timeout, maxSeconds) : { seconds: toSeconds(timeoutMs, maxSeconds) };
      if (sandbox === undefined) {
        const { Sandbox } = await import("./sandbox/sandbox.js");
        sandbox ??= new Sandbox(options);
      }
      const commandOptions = { ...options, redactor };
      if (!background && !detached) {
        const startedAtMs = monotonicMs();
        const title = formatCommand(line, workdir);
        const output = await executeCommand(commandOptions, sandbox, { command, title, timeLimit }, context);
        return monotonicMs() - startedAtMs > (args.yield_time_ms ?? Infinity)
          ? { ...output, text: `${output.text}\n${YIELD_NOTE}` }
          : output;
      }
      const { startInBackground } = await import("./bash-jobs.js");
      const prepared = await prepareCommand(commandOptions, sandbox, command, context, true);
      return startInBackground(commandOptions, formatCommand(line, workdir), prepared, detached, context);
    },
  });
  return {
    ...tool,
    background: options.background,
    close: async () => {
      await options.background.close(new ShuttingDownError());
      await sandbox?.close();
    },
  };
}

function createArguments(defaultSeconds: number, maxSeconds: number) {
  return defineArguments({
    command: text("", { minLength: 1, aliases: ["cmd", "script"] }),
    workdir: optional(
      text("", {
        minLength: 1,
        aliases: ["cwd", "working_directory", "workingDirectory", "dir_path", "directory"],
      }),
    ),
    timeout: optional(
      // No maximum here: `toTimeLimit` handles larger values.
      field(integer("", { min: 1 }), integer(`Seconds, at most ${maxSeconds}`, { min: 1 }).spec),
      defaultSeconds,
    ),
    timeout_ms: hidden(integer("", { min: 1 })),
    yield_time_ms: hidden(integer("", { min: 0 })),
    background: optional(
      flag("Keep it running after the call, without a time limit", {
        aliases: ["run_in_background", "is_background", "isBackground"],
      }),
      false,
    ),
    detached: optional(flag("Keep it running after gantry ends. Only if the user asks for that"), false),
  });
}

/** Formats a command as one line for users. */
function formatTitle(command: string, workdir: string | undefined): string {
  const line = formatCommand(command, workdir).replace(/\s*\n\s*/g, " ⏎ ");
  return line.length > MAX_TITLE_CHARACTERS ? `${line.slice(0, MAX_TITLE_CHARACTERS - 1)}…` : line;
}

/** Formats a command with its folder for users. */
function formatCommand(command: string, workdir: string | undefined): string {
  if (workdir === undefined) return command.trim();
  return `cd ${/^[\w./@+-]+$/.test(workdir) ? workdir : shellQuote(workdir)} && ${command.trim()}`;
}

/** Creates a script that runs a command in a folder and fails if the folder cannot be entered. */
function createFolderScript(command: string, workdir: string): string {
  // A path relative to the project folder gets `./`: the shell would search other names in CDPATH and treat `-` as an
  // option.
  return `cd ${shellQuote(isAbsolute(workdir) ? workdir : `./${workdir}`)} || exit\n${command}`;
}

/** Time limit of a command. */
interface TimeLimit {
  readonly seconds: number;
  /** Note for the model if its timeout was interpreted as milliseconds. Undefined for a timeout in seconds. */
  readonly note?: string;
}

/** Interprets a timeout above `maxSeconds` seconds as milliseconds, because models of other agents send milliseconds. */
function toTimeLimit(timeout: number, maxSeconds: number): TimeLimit {
  if (timeout <= maxSeconds) return { seconds: timeout };
  const note = `timeout is in seconds, at most ${maxSeconds}; ${timeout} was interpreted as milliseconds`;
  return { seconds: toSeconds(timeout, maxSeconds), note };
}

function toSeconds(milliseconds: number, maxSeconds: number): number {
  return Math.min(maxSeconds, Math.ceil(milliseconds / 1000));
}

/** A command whose end the call awaits. `title`: the command with its folder, for users. */
interface ForegroundCommand {
  readonly command: string;
  readonly title: string;
  readonly timeLimit: TimeLimit;
}

async function executeCommand(
  options: BashToolOptions & { redactor: Redactor },
  sandbox: Sandbox,
  { command, title, timeLimit }: ForegroundCommand,
  context: ToolContext,
): Promise<ToolOutput> {
  const { signal, sessionId, backgroundSignal } = context;
  const { redactor, outputsPath } = options;
  const preparedCommand = await prepareCommand(options, sandbox, command, context);
  const [{ OutputFile }, { createOutputPath }, { RunningCommand }] = await Promise.all([
    import("../../processes/output-file.js"),
    import("../../processes/output-folder.js"),
    import("./running-command.js"),
  ]);
  const createPath = (): string | undefined => outputsPath && createOutputPath(outputsPath, sessionId);
  const outputFile = new OutputFile(createPath, redactor, MAX_MODEL_TEXT_BYTES);
  const output = new HeadTail(MAX_RAW_BYTES, {
    clean: (newText) => redactor.hide(cleanOutput(newText)),
    reach: redactor.reach,
  });
  const liveOutput = new LiveOutput(redactor, (newText) => context.progress(newText));
  let hasPrintedBeforeAbort = false;
  const onOutput = (chunk: Buffer): void => {
    // A shell reports the signals that end its commands.
    hasPrintedBeforeAbort ||= !signal.aborted;
    output.push(chunk);
    outputFile.push(chunk);
    liveOutput.push(chunk);
  };
  let end: ChildEnd;
  try {
    const child = await preparedCommand.start();
    const runningCommand = new RunningCommand(child, { timeoutMs: timeLimit.seconds * 1000, signal, onOutput });
    const move = async (): Promise<ToolOutput> => {
      const { moveToBackground } = await import("./bash-jobs.js");
      const command = { title, preparedCommand, runningCommand, getChunks: () => output.chunks };
      const { text } = await moveToBackground(options, command, context);
      return { text: outputFile.file === undefined ? text : `${text}\n${describeOutputFile(outputFile.file)}` };
    };
    const result = await runningCommand.waitForEnd(backgroundSignal, move);
    if ("text" in result) return result;
    end = result;
  } finally {
    liveOutput.end();
    outputFile.end();
  }
  const tidyNotes = await preparedCommand.tidy(end, output.text());
  // The user and the model see what a stopped command has printed.
  if (end.reason === "abort" && !hasPrintedBeforeAbort) throw signal.reason;
  if (end.sandboxFault !== undefined)
    throw new ToolError(`the sandbox could not start: ${end.sandboxFault}. The command did not run. Tell the user.`);
  const { isSandboxed } = preparedCommand;
  return formatResult(end, { output, file: outputFile.file, tidyNotes, timeLimit, sandbox, isSandboxed });
}

/** A command that has ended, besides its exit code. */
interface EndedCommand {
  readonly output: HeadTail;
  /** The file with the full output, if the output is long. */
  readonly file: StoredOutput | undefined;
  /** Notes about limits, refused hosts and removed files. */
  readonly tidyNotes: readonly string[];
  readonly timeLimit: TimeLimit;
  readonly sandbox: Sandbox;
  readonly isSandboxed: boolean;
}

function formatResult(
  end: ChildEnd,
  { output, file, tidyNotes, timeLimit, sandbox, isSandboxed }: EndedCommand,
): ToolOutput {
  const outputText = output.text();
  const notes = [describeEnd(end, timeLimit)];
  // The forwarder of the network is such a process too.
  if (end.hadLeftovers && !(isSandboxed && typeof sandbox.network === "object"))
    notes.push("[remaining background processes were stopped; set background to keep a command running]");
  if (isSandboxed && end.code !== 0) notes.push(...listSandboxHints(outputText, sandbox));
  notes.push(...tidyNotes);
  if (file !== undefined) notes.push(describeOutputFile(file));
  const hint = file === undefined ? "redirect to a file and read parts of it to see more" : "";
  const shownOutput = cutMiddle(outputText, MAX_MODEL_TEXT_BYTES, hint);
  return {
    text: [shownOutput.replace(/\n+$/, "") || "(no output)", ...notes].join("\n"),
    failed: end.reason !== "exit" || end.code !== 0,
    commandEnd: toCommandEnd(end, shownOutput, shownOutput !== outputText || output.isCut),
  };
}

function toCommandEnd(end: ChildEnd, output: string, truncated: boolean): NonNullable<ToolOutput["commandEnd"]> {
  return { exitCode: end.code, output, truncated, timedOut: end.reason === "timeout" };
}

/** Returns notes for the model that explain typical errors of commands in the sandbox. */
function listSandboxHints(outputText: string, sandbox: Sandbox): string[] {
  const notes: string[] = [];
  if (/Read-only file system|EROFS/.test(outputText))
    notes.push("[commands may write only to the project folder, /tmp and tools.allow_paths]");
  if (/\.git\/(config|hooks|worktrees)\b.*(busy|Read-only)|could not (lock|write) config file/i.test(outputText))
    notes.push("[commands cannot change settings and hooks of git; the user can]");
  if (
    sandbox.network !== true &&
    /EAI_AGAIN|ENETUNREACH|Could not resolve|Temporary failure in name|unreachable|getaddrinfo/i.test(outputText)
  )
    notes.push(
      sandbox.network === false
        ? "[commands have no network here; the user can allow it with tools.bash.network]"
        : "[commands reach only the hosts of tools.bash.network, through the proxy in HTTP_PROXY and HTTPS_PROXY]",
    );
  if (
    /gpg failed to sign|error connecting to (the )?agent|Could not open a connection to your authentication agent/i.test(
      outputText,
    )
  )
    notes.push(
      "[commands cannot access the keys and agents of the user; commit without a signature, or ask the user to commit]",
    );
  return notes;
}

function describeEnd(
  end: ChildEnd,
  { seconds, note = "set a longer timeout, or do less in one call" }: TimeLimit,
): string {
  if (end.reason === "abort") return "[stopped with the run, with all processes that it started]";
  if (end.reason === "timeout") return `[stopped after ${seconds} s, with all processes that it started; ${note}]`;
  return end.signal === null ? `[exit code ${end.code}]` : `[ended by ${end.signal}]`;
}
