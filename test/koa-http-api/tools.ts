import { isRecord, type Tool } from "gantry";

/** Gives back its text. */
export const echoTool: Tool<{ text: string }> = {
  name: "echo",
  description: "Gives back its text.",
  inputSchema: { type: "object", properties: { text: { type: "string" } } },
  kind: "other",
  parallel: true,
  needsPermission: false,
  parse: (input) => ({ text: isRecord(input) ? String(input["text"]) : "" }),
  describe: () => ({ title: "Echo", locations: [] }),
  run: ({ text }) => Promise.resolve({ text: `echo: ${text}` }),
};
