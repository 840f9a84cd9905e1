import { join, resolve } from "node:path";
import { createFolder } from "../base/create-folder.js";
import { ConfigError } from "../ports/errors.js";
import * as option from "./options.js";

/** Value of `cwd` for the session's project folder. */
const PROJECT = "<project>";

const texts = (about: string, ofThem: readonly string[] = []) =>
  option.list(option.text(""), about, { default: ofThem });
const variables = option.map(option.text("A value.", { secret: true, required: true }), "", {
  fits: (name) => /^[^=\0]+$/.test(name),
  expected: "the name of a variable",
});

const entries = {
  command: option.text("The program that is the server: looked for in the `PATH`, unless it is a path.", {
    fits: (text) => text.trim() !== "" && !text.includes("\0"),
    expected: "a program",
  }),
  args: texts("Its arguments."),
  env: {
    ...variables,
    docs: { ...variables.docs, about: "Its environment, beside that of commands (`tools.env`)." },
  },
  cwd: option.path(
    `Its working directory; \`"${PROJECT}"\`: the session's project folder, whose files then decide what \`npx\` and similar programs run. Default: the folder \`mcp\` of gantry's home.`,
  ),
  url: option.text("The server's address, where it is no program.", {
    fits: (text) => URL.canParse(text) && /^https?:/i.test(text),
    expected: "an address with http or https",
    secret: true,
  }),
  headers: option.headers("Sent with every request to that address, and never to another host.", { default: {} }),
  type: option.oneOf(
    ["stdio", "http", "sse"],
    '`"stdio"` of a program; `"http"` (streamable HTTP) or `"sse"` (the older way) of an address. Left out: what fits, the older way where the other is not spoken.',
  ),
  enabled: option.flag("Whether it is used at all.", { default: true }),
  tools: texts("Which of its tools are on offer: their names, or globs for them.", ["*"]),
  timeout: option.number(
    "How long a call may take; what the server tells of its progress begins it anew, up to 30 times as long.",
    {
      unit: "seconds",
      above: 0,
      max: 86_400,
      default: 120,
    },
  ),
  trusted: option.flag(
    "Whether it is believed which of its tools only look: those need no permission then, and run in plan mode.",
    { default: false },
  ),
};

/**
 * Returns the working directory of a configured server. `configDir` is the base of relative paths.
 *
 * The default is a folder in gantry's home, which is created. In a project folder, a cloned repository could choose
 * what `npx` runs. Throws `ConfigError`.
 */
function folderOf(
  cwd: string | undefined,
  { configDir, home }: Record<"configDir" | "home", string>,
): { cwd?: string } {
  if (cwd === PROJECT) return {};
  if (cwd !== undefined) return { cwd: resolve(configDir, cwd) };
  const folder = join(home, "mcp");
  try {
    createFolder(folder);
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw new ConfigError(`${folder}: the folder of MCP servers cannot be created (${code})`, { cause: error });
  }
  return { cwd: folder };
}

/** The options of an MCP server, and the rule for combinations of them. */
export const mcpServerOptions = {
  entries,
  folderOf,
  rule: ({
    command,
    url,
    type,
    args,
    cwd,
  }: Pick<option.SectionValue<typeof entries>, "command" | "url" | "type" | "args" | "cwd">):
    option.Fault | undefined => {
    if (command === undefined && url === undefined) return { key: "command", expected: "a program, or an url" };
    if (command !== undefined && url !== undefined) return { key: "url", expected: "none beside command" };
    const fits = command === undefined ? "http or sse, since it has an address" : "stdio, since it is a program";
    if (type !== undefined && (type === "stdio") !== (command !== undefined)) return { key: "type", expected: fits };
    if (command === undefined && args.length > 0) return { key: "args", expected: "a command beside them" };
    return command === undefined && cwd !== undefined ? { key: "cwd", expected: "a command beside it" } : undefined;
  },
};
