import type { Background } from "../../processes/background.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, integer, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";

/** Maximum time to wait for a pattern or the end of a command, in seconds. */
const MAX_WAIT_SECONDS = 600;
/** Default time to wait for a pattern or the end of a command, in seconds. */
const DEFAULT_WAIT_SECONDS = 30;
const MAX_TITLE_TEXT_CHARACTERS = 100;

const id = text("", { minLength: 1, aliases: ["bash_id", "process_id"] });

/** Loads the implementation at first use, because few runs need it. */
const loadJobs = () => import("./bash-jobs.js");

/** Creates the tool `bash_output`, which shows the new output of a background command. */
export function bashOutputTool(background: Background): Tool {
  const schema = defineArguments({
    id,
    wait_for: optional(
      text("Regular expression for a line", {
        minLength: 1,
        aliases: ["pattern"],
      }),
    ),
    wait_end: optional(flag(), false),
    timeout: optional(
      integer(`Seconds, at most ${MAX_WAIT_SECONDS}`, { min: 1, max: MAX_WAIT_SECONDS }),
      DEFAULT_WAIT_SECONDS,
    ),
  });
  const tool = defineTool({
    name: "bash_output",
    description: "Show new output and the state of a background command. Wait with wait_for or wait_end; do not poll.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ id, wait_for, wait_end }) => {
      const condition =
        wait_for === undefined ? (wait_end ? " until it ends" : "") : ` until ${JSON.stringify(wait_for)}`;
      return `Output of ${id}${condition}`;
    },
    run: async ({ id, wait_for, wait_end, timeout }, { sessionId, signal }) => {
      const job = await background.find(sessionId, id);
      const { showOutput } = await loadJobs();
      return showOutput(id, job, { pattern: wait_for, end: wait_end, seconds: timeout }, signal);
    },
  });
  return { ...tool, background };
}

/** Creates the tool `bash_input`, which writes to the standard input of a background command. */
export function bashInputTool(background: Background): Tool {
  const schema = defineArguments({
    id,
    text: text("", { aliases: ["input"] }),
    newline: optional(flag(), true),
    close: optional(flag("Then end the input"), false),
  });
  return defineTool({
    name: "bash_input",
    description: "Write to the input of a background command.",
    schema,
    kind: "execute",
    // The reader of the input may be a shell, so that permission rules for commands apply.
    describe: ({ id, text }) => ({
      title: `Write to ${id}: ${text.length > MAX_TITLE_TEXT_CHARACTERS ? `${text.slice(0, MAX_TITLE_TEXT_CHARACTERS - 1)}…` : text}`,
      actsAs: ["bash"],
    }),
    run: async ({ id, text, newline, close }, { sessionId, signal }) => {
      const job = await background.find(sessionId, id);
      const { writeInput } = await loadJobs();
      // With `close` and without text, only the end of file is sent.
      const input = close && text === "" ? "" : newline && !text.endsWith("\n") ? `${text}\n` : text;
      return writeInput(id, job, input, close, signal);
    },
  });
}

/** Creates the tool `bash_stop`, which ends a background command. */
export function bashStopTool(background: Background): Tool {
  return defineTool({
    name: "bash_stop",
    description: "Stop a background command and its processes.",
    schema: defineArguments({ id }),
    // It starts no command, so that permission rules for commands do not apply.
    kind: "other",
    // The start of the command already had permission.
    needsPermission: false,
    describe: ({ id }) => `Stop ${id}`,
    run: async ({ id }, { sessionId }) => {
      const job = await background.find(sessionId, id);
      return (await loadJobs()).stopJob(id, job);
    },
  });
}
