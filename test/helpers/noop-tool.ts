import type { Tool } from "gantry";

/** A tool without any effect. */
export const noopTool: Tool<Record<string, unknown>> = {
  name: "noop",
  description: "Does nothing.",
  inputSchema: { type: "object" },
  kind: "other",
  parallel: false,
  needsPermission: false,
  parse: (input) => input as Record<string, unknown>,
  describe: () => ({ title: "Nothing", locations: [] }),
  run: () => Promise.resolve({ text: "done" }),
};
