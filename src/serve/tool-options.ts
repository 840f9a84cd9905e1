import * as option from "../plugin/options.js";

const textListOption = (description: string, defaultTexts: readonly string[] = []) =>
  option.list(option.text(""), description, { default: defaultTexts });

const limitOption = (description: string) => option.integer(`${description} Default: no limit.`, { min: 1 });

/** The access that built-in tools have, and how they work. See docs/tools.md. */
export const tools = option.section({
  allow_paths: textListOption(
    "Folders outside the project that file tools and attachments may use, relative to the config file's folder.",
  ),
  protected_paths: textListOption(
    "Paths that file tools can read but not change: see [tools.md](tools.md#protected-paths). `[]`: none.",
    ["*"],
  ),
  env: textListOption(
    "Environment variables of commands, in addition to `PATH`, `HOME`, `LANG`, `LC_*`, `TERM`, `TMPDIR`, `USER` and `SHELL`.",
  ),
  bash: option.section({
    enabled: option.flag("Whether commands can be run.", { default: true }),
    timeout: option.number("Default timeout of a command, in seconds. The model can request another one.", {
      above: 0,
      default: 120,
    }),
    sandbox: option.oneOf(
      ["auto", "required", "off"],
      '`"auto"`: bubblewrap if available. `"required"`: only in bubblewrap. `"off"`: no sandbox.',
      { default: "auto" },
    ),
    network: option.custom<boolean | readonly string[]>(
      'Whether commands in the sandbox have network access, or the [hosts](tools.md#the-network-of-commands) that they can reach. Default: true, except with `"required"`.',
      {
        fits: (value) =>
          typeof value === "boolean" || (Array.isArray(value) && value.every((host) => typeof host === "string")),
        expected: "true, false or a list of hosts",
        type: "boolean or list of strings",
        json: { type: ["boolean", "array"], items: { type: "string" } },
      },
    ),
    limits: option.section({
      cpu_seconds: limitOption("CPU time of each process of a command, in seconds."),
      memory_bytes: limitOption("Memory of all processes of a command together. Needs a cgroup."),
      processes: limitOption("Processes and threads of a command. Needs a cgroup."),
      file_bytes: limitOption("Size of each file that a command writes, rounded up to 512 bytes."),
    }),
  }),
  task: option.section({
    max_iterations: option.integer("Maximum model calls of a subagent, at most `agent.max_iterations`.", {
      min: 1,
      default: 50,
    }),
  }),
  check_edits: option.flag(
    "Whether the result of a file change includes new syntax errors: see [tools.md](tools.md#checks-after-an-edit).",
    { default: true },
  ),
  checks: option.list(
    option.section({
      files: option.text("Glob of the files, relative to the project folder.", { required: true }),
      command: option.text("Command to run after such a file was changed, in the same way as `bash`.", {
        required: true,
      }),
      timeout: option.number("Timeout in seconds.", { above: 0, max: 600, default: 20 }),
    }),
    "Commands that check the project. The result of a change includes their output that is new since the run's first change.",
    { default: [] },
  ),
  webfetch: option.section({
    allow_private: option.flag("Whether web pages may be fetched from loopback and private addresses.", {
      default: false,
    }),
  }),
  web_search: option.section({
    provider: option.oneOf(
      ["model", "searxng", "brave", "tavily"],
      "Search service of the tool `websearch`; `model`: the search of the model's own provider. Default: the tool is not offered.",
    ),
    base_url: option.text("Base URL of the service. Required for SearXNG. Default: the public service.", {
      fits: (value) => /^https?:\/\//.test(value) && URL.canParse(value),
      expected: "a URL with http or https",
      pattern: "^https?://",
      secret: true,
    }),
    api_key: option.text('Key of the service, `"${BRAVE_API_KEY}"` for instance. Required for Brave and Tavily.', {
      fits: (key) => /^[\x21-\x7e]+$/.test(key),
      expected: "a key without white space",
      secret: true,
    }),
  }),
});
