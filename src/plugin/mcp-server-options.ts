import { join, resolve } from "node:path";
import { createFolder } from "../base/create-folder.js";
import { ConfigError } from "../ports/errors.js";
import * as option from "./options.js";

/** Value of `cwd` for the session's project folder. */
const PROJECT_PLACEHOLDER = "<project>";

const textListOption = (description: string, defaultTexts: readonly string[] = []) =>
  option.list(option.text(""), description, { default: defaultTexts });
const variablesOption = option.map(option.text("A value.", { secret: true, required: true }), "", {
  fits: (name) => /^[^=\0]+$/.test(name),
  expected: "the name of an environment variable",
});

const entries = {
  command: option.text("The program of the server. Looked up in the `PATH` unless it is a path.", {
    fits: (text) => text.trim() !== "" && !text.includes("\0"),
    expected: "a program",
  }),
  args: textListOption("Arguments of the program."),
  env: {
    ...variablesOption,
    docs: { ...variablesOption.docs, about: "Environment variables, in addition to those of commands (`tools.env`)." },
  },
  cwd: option.path(
    `Working directory. \`"${PROJECT_PLACEHOLDER}"\`: the session's project folder, whose files then decide what \`npx\` runs. Default: the folder \`mcp\` in gantry's home.`,
  ),
  url: option.text("Address of the server, instead of `command`.", {
    fits: (text) => URL.canParse(text) && /^https?:/i.test(text),
    expected: "an address with http or https",
    secret: true,
  }),
  headers: option.headers("Headers of every request to that address. Never sent to another host.", { default: {} }),
  type: option.oneOf(
    ["stdio", "http", "sse"],
    '`"stdio"` for a program; `"http"` (streamable HTTP) or `"sse"` (the older transport) for an address. Default: the matching one; `"sse"` if the server does not support `"http"`.',
  ),
  enabled: option.flag("Whether the server is used.", { default: true }),
  tools: textListOption("The tools to offer: names or globs.", ["*"]),
  timeout: option.number("Timeout of a call. Progress restarts it, up to 30 times its length in total.", {
    unit: "seconds",
    above: 0,
    max: 86_400,
    default: 120,
  }),
  trusted: option.flag(
    "Whether the hints of its tools are trusted. Read-only tools then need no permission and run in plan mode.",
    { default: false },
  ),
  sampling: option.flag("Whether it may use the session's model, with permission.", { default: false }),
};

/**
 * Returns the working directory of a configured server. Without `cwd` in the result, the server runs in the session's
 * project folder. `configDir` is the base of relative paths.
 *
 * The default is a folder in gantry's home, which this function creates. In a project folder, a cloned repository could
 * choose what `npx` runs. Throws `ConfigError`.
 */
function folderOf(
  cwd: string | undefined,
  { configDir, home }: Record<"configDir" | "home", string>,
): { cwd?: string } {
  if (cwd === PROJECT_PLACEHOLDER) return {};
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

/** The options of an MCP server, their rule, and the function that returns the working directory. */
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
    option.OptionFault | undefined => {
    if (command === undefined && url === undefined) return { key: "command", expected: "a program, or an url" };
    if (command !== undefined && url !== undefined) return { key: "url", expected: "no url together with command" };
    const expected = command === undefined ? "http or sse for an address" : "stdio for a program";
    if (type !== undefined && (type === "stdio") !== (command !== undefined)) return { key: "type", expected };
    if (command === undefined && args.length > 0) return { key: "args", expected: "a command for them" };
    return command === undefined && cwd !== undefined ? { key: "cwd", expected: "a command for it" } : undefined;
  },
};
