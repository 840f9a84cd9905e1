import type { Tool } from "gantry";
import { isRecord } from "gantry/plugin";

/** Returns the text of its input after `echo: `. */
export const echoTextTool: Tool<{ text: string }> = {
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

/** Reports changes of two files. */
export const editTool: Tool<object> = {
  ...echoTextTool,
  name: "edit",
  description: "Edits.",
  kind: "edit",
  parse: () => ({}),
  run: () =>
    Promise.resolve({
      text: "edited",
      diff: [
        { path: "/p/new.txt", oldText: null, newText: "new" },
        { path: "/p/old.txt", oldText: "old", newText: "" },
      ],
      locations: [{ path: "/p/new.txt", line: 3 }],
    }),
};

/** Always fails. */
export const failTool: Tool<object> = {
  ...echoTextTool,
  name: "fail",
  description: "Fails.",
  parse: () => ({}),
  run: () => Promise.reject(new Error("no luck")),
};
