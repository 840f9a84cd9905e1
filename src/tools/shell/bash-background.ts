import type { Background } from "../../processes/background.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, integer, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";

/** Longest wait for a pattern or an end, in seconds; and the one that is meant where none is given. */
const LONGEST = 600;
const WAIT = 30;

const id = text("As bash told it.", { minLength: 1, aliases: ["bash_id", "process_id"] });

/** What is behind these tools is needed by few runs. */
const jobs = () => import("./bash-jobs.js");

/** Shows what a command in the background printed. */
export function bashOutputTool(background: Background): Tool {
  const schema = defineArguments({
    id,
    wait_for: optional(
      text("Wait until a line of what it prints matches this regular expression.", {
        minLength: 1,
        aliases: ["pattern"],
      }),
    ),
    wait_end: optional(flag("Wait until it ends."), false),
    timeout: optional(integer(`Seconds to wait at most; default ${WAIT}.`, { min: 1, max: LONGEST }), WAIT),
  });
  const tool = defineTool({
    name: "bash_output",
    description:
      "Show what a command in the background printed since you last looked, and whether it runs. To wait for it, set wait_for or wait_end rather than look again and again.",
    schema,
    kind: "read",
    parallel: true,
    describe: ({ id, wait_for, wait_end }) => {
      const until = wait_for === undefined ? (wait_end ? " until it ends" : "") : ` until ${JSON.stringify(wait_for)}`;
      return `Output of ${id}${until}`;
    },
    run: async ({ id, wait_for, wait_end, timeout }, { sessionId, signal }) => {
      const job = await background.find(sessionId, id);
      const { lookAt } = await jobs();
      return lookAt(id, job, { pattern: wait_for, end: wait_end, seconds: timeout }, signal);
    },
  });
  return { ...tool, background };
}

/** Says something to a command in the background. */
export function bashInputTool(background: Background): Tool {
  const schema = defineArguments({
    id,
    text: text("What to say to its standard input.", { aliases: ["input"] }),
    newline: optional(flag("Whether to end it with a line end; default true."), true),
    close: optional(flag("Say that nothing follows (end of file)."), false),
  });
  return defineTool({
    name: "bash_input",
    description: "Say something to the standard input of a command in the background; it has no terminal.",
    schema,
    kind: "execute",
    // What reads it may be a shell: rules for commands are for it as well.
    describe: ({ id, text }) => ({
      title: `Tell ${id}: ${text.length > 100 ? `${text.slice(0, 99)}…` : text}`,
      actsAs: ["bash"],
    }),
    run: async ({ id, text, newline, close }, { sessionId, signal }) => {
      const job = await background.find(sessionId, id);
      const { sayTo } = await jobs();
      // Only the end is to be told.
      const said = close && text === "" ? "" : newline && !text.endsWith("\n") ? `${text}\n` : text;
      return sayTo(id, job, said, close, signal);
    },
  });
}

/** Ends a command in the background. */
export function bashStopTool(background: Background): Tool {
  return defineTool({
    name: "bash_stop",
    description: "End a command in the background, with all that it started, and show what it printed last.",
    schema: defineArguments({ id }),
    // It starts nothing, so that no rule for commands is for it.
    kind: "other",
    // It was allowed to begin.
    needsPermission: false,
    describe: ({ id }) => `Stop ${id}`,
    run: async ({ id }, { sessionId }) => {
      const job = await background.find(sessionId, id);
      return (await jobs()).stopJob(id, job);
    },
  });
}
