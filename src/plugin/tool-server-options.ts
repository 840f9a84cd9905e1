import * as option from "./options.js";

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
    told: { ...variables.told, about: "Its environment, beside that of commands (`tools.env`)." },
  },
  cwd: option.path("Its working directory. Default: the session's project folder."),
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

/** The options of a server of tools that speaks the Model Context Protocol, and what must be true of them together. */
export const toolServerOptions = {
  entries,
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
