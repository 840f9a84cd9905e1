import type { Tool } from "@modelcontextprotocol/server";

export const MODES = ["auto", "ask", "plan"] as const;

const createStringSchema = (description: string) => ({ type: "string", description }) as const;

export const TOOLS: readonly Tool[] = [
  {
    name: "run",
    title: "Run the coding agent",
    description:
      "Have the coding agent do a task in its project folder: it reads and edits files and runs commands until the task is done, then reports its work. Takes minutes. Set `session` to continue a session.",
    inputSchema: {
      type: "object",
      properties: {
        prompt: createStringSchema("The task, with all that the agent needs to know."),
        session: createStringSchema(
          "Id of a session to continue; default a new one. The prompt `/compact` then summarizes its conversation.",
        ),
        model: createStringSchema("`provider/model`, or a model's name; default the session's, or the configured one."),
        mode: {
          type: "string",
          enum: [...MODES],
          description: "Permission mode: auto allows all, ask asks before it changes something, plan changes nothing.",
        },
        project_dir: createStringSchema(
          "Absolute path of the project folder; default the session's, or where gantry was started.",
        ),
      },
      required: ["prompt"],
    },
    outputSchema: {
      type: "object",
      properties: {
        output: createStringSchema("The answer."),
        session: createStringSchema("Id of the session."),
        run: createStringSchema("Id of the run."),
        ended_by: createStringSchema("model: the run is complete; otherwise the limit that ended it."),
        tokens: { type: "integer" },
        cost_usd: { type: "number", description: "0 if the price is unknown." },
      },
      required: ["output", "session", "run", "ended_by", "tokens", "cost_usd"],
    },
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  },
  {
    name: "sessions",
    title: "List sessions",
    description: "List the agent's sessions, last used first.",
    inputSchema: {
      type: "object",
      properties: {
        search: createStringSchema("Part of a title."),
        limit: { type: "integer", minimum: 1, maximum: 100, description: "Default 20." },
      },
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: "session",
    title: "Read a session",
    description: "Show the messages of a session, at most 500.",
    inputSchema: {
      type: "object",
      properties: {
        session: createStringSchema("Id of the session."),
        after: { type: "integer", minimum: 0, description: "Only messages after this number." },
      },
      required: ["session"],
    },
    annotations: { readOnlyHint: true },
  },
];
