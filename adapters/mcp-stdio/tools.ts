import type { Tool } from "@modelcontextprotocol/server";

export const MODES = ["auto", "ask", "plan"] as const;

const string = (description: string) => ({ type: "string", description }) as const;

export const TOOLS: readonly Tool[] = [
  {
    name: "run",
    title: "Run the coding agent",
    description:
      "Have the coding agent do a task in its project folder: it reads, edits and runs commands until it is done, and answers with what it did. Takes minutes. Give `session` to go on where it was.",
    inputSchema: {
      type: "object",
      properties: {
        prompt: string("The task, with all that the agent must know of it."),
        session: string("Id of a session to go on in; left out: a new one."),
        model: string("`provider/model`, or a model's name; left out: the session's, or the configured one."),
        mode: {
          type: "string",
          enum: [...MODES],
          description: "How free it is: auto does all, ask asks before it changes something, plan changes nothing.",
        },
        project_dir: string(
          "Absolute path of the folder to work in; left out: the session's, or where gantry was started.",
        ),
      },
      required: ["prompt"],
    },
    outputSchema: {
      type: "object",
      properties: {
        output: string("The answer."),
        session: string("Id of the session."),
        run: string("Id of the run."),
        ended_by: string("model: it is done; else the limit that ended it."),
        tokens: { type: "integer" },
        cost_usd: { type: "number", description: "0 where the price is not known." },
      },
      required: ["output", "session", "run", "ended_by", "tokens", "cost_usd"],
    },
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  },
  {
    name: "sessions",
    title: "List sessions",
    description: "The agent's sessions, the last used first.",
    inputSchema: {
      type: "object",
      properties: {
        search: string("Part of a title."),
        limit: { type: "integer", minimum: 1, maximum: 100, description: "Default 20." },
      },
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: "session",
    title: "Read a session",
    description: "What was said in a session, 500 messages at most.",
    inputSchema: {
      type: "object",
      properties: {
        session: string("Its id."),
        after: { type: "integer", minimum: 0, description: "Only what comes behind the message of this number." },
      },
      required: ["session"],
    },
    annotations: { readOnlyHint: true },
  },
];
