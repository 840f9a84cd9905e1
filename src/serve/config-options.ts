import { COMPACTION_DEFAULTS } from "../compaction/names.js";
import { HTTP_DEFAULTS } from "../http/defaults.js";
import { isRecord } from "../base/json.js";
import { EFFORTS } from "../models/efforts.js";
import * as option from "../plugin/options.js";
import { sharedOptions } from "../plugin/shared-options.js";
import { AGENT_DEFAULTS, BUDGET_LIMITS } from "../ports/defaults.js";
import { isCommandGlob, isPathGlob, isToolGlob } from "../run/permissions/rule-schema.js";
import { PROMPT_USES } from "../ports/prompt-use.js";
import { EXPECTED, RULE_ACTIONS } from "../run/permissions/rule-words.js";
import { UNATTENDED } from "../ports/unattended.js";
import { mcpServers } from "./mcp-options.js";
import { SESSION_MODES } from "../sessions/session-modes.js";

const { max_body_bytes, streams, connections, json_depth, frame_bytes } = sharedOptions;
const { host, port, headerTimeout, requestTimeout, keepAliveTimeout } = HTTP_DEFAULTS;
const { maxIterations, concurrentRuns, attachedBytes, toolOutputBytes, catalogueRefresh, askTimeout, clientGrace } =
  AGENT_DEFAULTS;
const { enabled, strategy, threshold, keepMessages, contextWindow } = COMPACTION_DEFAULTS;
const money = { unit: "USD", above: 0, max: BUDGET_LIMITS.usd } as const;
const price = { unit: "USD per million tokens", min: 0 } as const;
const texts = (about: string, ofThem: readonly string[] = []) =>
  option.list(option.text(""), about, { default: ofThem });
const seconds = (about: string, time: number) => option.number(about, { unit: "seconds", above: 0, default: time });

/** A module entry: its name, or an object with its name and options. */
const module = <const Kind extends "transport" | "tool" | "policy" | "hook">(kind: Kind) =>
  option.custom<string | ({ readonly [Key in Kind]: string } & Readonly<Record<string, unknown>>)>("", {
    expected: `a ${kind}'s name, or an object with the key "${kind}" and its options`,
    type: "",
    json: {
      anyOf: [{ type: "string" }, { type: "object", required: [kind], properties: { [kind]: { type: "string" } } }],
    },
    fits: (value) => typeof value === "string" || (isRecord(value) && typeof value[kind] === "string"),
    required: true,
  });

const anObject = option.custom<Readonly<Record<string, unknown>>>("", {
  expected: "an object",
  type: "object",
  json: { type: "object" },
  fits: isRecord,
  required: true,
});

/** All keys of `config.json` except those of adapters. Open sections also hold the keys of adapters. */
export const configOptions = option.section(
  {
    server: option.section(
      {
        host: option.text(
          "Address to bind; flag `--host`. One beyond loopback needs `required_headers` or `insecure`.",
          { default: host },
        ),
        port: option.integer("Flag `--port`. 0 takes any free port, told in the listen line.", {
          min: 0,
          max: 65535,
          default: port,
        }),
        required_headers: option.headers(
          "Header names and the values that every request must carry, compared without regard to case; for `/api` and for whatever a plugin serves on the port. An empty value: the header must only be there, which proves nothing and counts as no authentication.",
          { default: {} },
        ),
        transports: option.list(
          module("transport"),
          'What `gantry serve` starts: `koa-http-api`, `web-console`, `acp-http-sse-ws`, `acp-stdio`, `mcp-stdio`, or a module; flag `--transport`. An object `{ "transport": name, … }` adds options.',
          { default: ["koa-http-api", "web-console"], filled: "transport" },
        ),
        console: option.flag("Serve the [console](console.md), where it is among the transports.", { default: true }),
        max_body_bytes,
        allow_cross_site: option.flag("Serve web pages of other sites although nothing authenticates.", {
          default: false,
        }),
        allow_loopback_pages: option.flag(
          "Serve web pages of other ports of this machine, such as a development server's; while nothing authenticates.",
          { default: true },
        ),
        allow_other_users: option.flag(
          "Serve processes of other users of this machine although nothing authenticates (Linux tells them apart; elsewhere they are served).",
          { default: false },
        ),
        allowed_hosts: texts("Further values of `Host` that are accepted while nothing authenticates."),
        drain_delay: option.number(
          "When SIGTERM tells it to stop, the server goes on as before for so long, while `GET /api/ready` says that it drains; only then it stops.",
          { unit: "seconds", min: 0, max: 3_600, default: 0 },
        ),
        insecure: option.flag("Bind beyond loopback without authentication; flag `--insecure`.", { default: false }),
      },
      { open: true },
    ),
    acp: option.section({}, { open: true }),
    session: option.section(
      {
        driver: option.text("`sqlite`, `json`, `postgres`, or a module; flag `--session-driver`.", {
          default: "sqlite",
        }),
      },
      { open: true },
    ),
    providers: option.list(anObject, "", { default: [] }),
    model: option.section({
      provider: option.text("Preferred provider, for runs that name none.", { default: "" }),
      model: option.text(
        "Preferred model. Without one: that of the newest session in the folder, else the first on offer.",
        { default: "" },
      ),
      reasoning_effort: option.oneOf(
        EFFORTS,
        '`""` (the model\'s own), `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"` or `"max"`; where a model has it not, the nearest that it has.',
        { default: "" },
      ),
    }),
    catalogue: option.section({
      refresh: option.custom<number | false>(
        "A provider's list of models older than so many seconds is asked for again when somebody looks. `0`: only when a model is named that is not there. `false`: as `0`, and prices are not brought up to date either.",
        {
          fits: (value) => value === false || (typeof value === "number" && value >= 0 && value <= 86_400),
          expected: "a number of seconds from 0 to 86400, or false",
          type: "number, 0–86400 seconds, or false",
          json: { anyOf: [{ type: "number", minimum: 0, maximum: 86_400 }, { const: false }] },
          default: catalogueRefresh,
        },
      ),
    }),
    agent: option.section({
      max_iterations: option.integer("Model calls of one run; then it ends with `finish_reason` `length`.", {
        min: 1,
        default: maxIterations,
      }),
      system_prompt: option.text("Added to the built-in system prompt.", { default: "" }),
      prompt: option.oneOf(
        PROMPT_USES,
        '`"extend"`: `system_prompt` is added to how gantry tells a model to work. `"replace"`: it stands in place of that. See [project.md](project.md#your-own-prompt).',
        { default: "extend" },
      ),
      project_instructions: option.flag(
        "Whether a model is told what the project says of itself: `AGENTS.md`, skills, branch and tree. A repository that you clone brings its own. See [project.md](project.md).",
        { default: true },
      ),
      tools: option.list(
        module("tool"),
        'Tools on offer, by name or module; `"*"` is all built-in ones. `["read", "list", "glob", "grep"]` changes nothing. An object `{ "tool": module, … }` adds options.',
        { default: ["*"] },
      ),
    }),
    mcp_servers: mcpServers,
    permissions: option.section({
      mode: option.oneOf(
        SESSION_MODES,
        'Of sessions that are new. `"auto"`: tools run. `"ask"`: those that change something or leave the machine wait for a person. `"plan"`: nothing runs that changes anything. See [permissions.md](permissions.md).',
        { default: "auto" },
      ),
      rules: option.list(
        option.section({
          tool: option.text("Name of a tool, or `mcp:server/tool` of a server's, or a glob for one of them.", {
            fits: (text) => isToolGlob(text),
            expected: EXPECTED.tool,
            required: true,
          }),
          match: option.text(
            "Of commands: their words, each a glob; a `*` alone, and one at the end, stand for any number of words.",
            { fits: (text) => isCommandGlob(text), expected: EXPECTED.match },
          ),
          path: option.text(
            "Glob for the paths that a call names, from the project folder, or one that begins with `/` or `~/`.",
            { fits: (text) => isPathGlob(text), expected: EXPECTED.path },
          ),
          action: option.oneOf(RULE_ACTIONS, '`"allow"`, `"ask"` or `"deny"`.', { required: true }),
          reason: option.text("Told to the model of a `deny`, to the person of an `ask`."),
        }),
        "Which calls of tools run, are asked about and are refused: the first that fits decides. See [permissions.md](permissions.md#rules).",
        { default: [] },
      ),
      policies: option.list(
        module("policy"),
        'Modules that judge calls before the rules do, asked in order. An object `{ "policy": module, … }` adds options.',
        { default: [] },
      ),
      unattended: option.oneOf(
        UNATTENDED,
        'What becomes of a question that nobody is there to answer: `"reject"`, `"allow"`, or `"wait"` for somebody, as long as `timeout`.',
        { default: "reject" },
      ),
      timeout: option.number("How long a question waits for an answer while nobody is there.", {
        unit: "seconds",
        above: 0,
        max: 86_400,
        default: askTimeout,
      }),
      client_grace: option.number("How long a question waits after the last client that can answer has disconnected.", {
        unit: "seconds",
        min: 0,
        max: 86_400,
        default: clientGrace,
      }),
    }),
    hooks: option.list(
      module("hook"),
      'Modules with hooks and event listeners, called in this order. An object `{ "hook": module, … }` adds options. See [hooks.md](hooks.md).',
      { default: [] },
    ),
    compaction: option.section({
      enabled: option.flag("Whether it happens at all.", { default: enabled }),
      strategy: option.text(
        '`"summary"` keeps the first and the newest messages and a summary of the others by the model; `"sliding-window"` only those messages; or a module.',
        { default: strategy },
      ),
      threshold: option.number("Share of the window at which it happens, above 0 and at most 1.", {
        above: 0,
        max: 1,
        default: threshold,
      }),
      keep_messages: option.integer("Newest messages that stay.", { min: 1, default: keepMessages }),
      context_window: option.integer(
        "The window in tokens, in place of the model's own; 0: the model's own, or 128,000 where that is unknown.",
        { min: 0, default: contextWindow },
      ),
    }),
    tools: option.section({
      allow_paths: texts(
        "Folders beside the project that file tools and attachments may use. Relative ones start at the config file's folder.",
      ),
      protected_paths: texts(
        "What file tools read and do not change: see [tools.md](tools.md#protected-paths). `[]`: nothing.",
        ["*"],
      ),
      env: texts(
        "Environment variables that commands get beside `PATH`, `HOME`, `LANG`, `LC_*`, `TERM`, `TMPDIR`, `USER` and `SHELL`.",
      ),
      bash: option.section({
        enabled: option.flag("Whether commands can be run at all.", { default: true }),
        timeout: option.number("Seconds that a command may take unless the model asks for another time.", {
          above: 0,
          default: 120,
        }),
        sandbox: option.oneOf(
          ["auto", "required", "off"],
          '`"auto"`: in bubblewrap where that works. `"required"`: only there. `"off"`: never.',
          { default: "auto" },
        ),
        network: option.flag(
          'Whether commands in the sandbox reach the network, and so this server too. Left out: not with `"required"`.',
        ),
      }),
      task: option.section({
        max_iterations: option.integer("Model calls of a helper, at most `agent.max_iterations`.", {
          min: 1,
          default: 50,
        }),
      }),
      check_edits: option.flag(
        "Whether syntax errors that a change of a file brought are told with its result: see [tools.md](tools.md#checks-after-an-edit).",
        { default: true },
      ),
      checks: option.list(
        option.section({
          files: option.text("Which files it is for: a glob for paths from the project folder on.", { required: true }),
          command: option.text("Run as `bash` runs commands, after such a file was changed.", { required: true }),
          timeout: option.number("Seconds it may take.", { above: 0, max: 600, default: 20 }),
        }),
        "Commands that tell what is wrong with the project. What they print that is new since the run's first change is told with the result of a change.",
        { default: [] },
      ),
      webfetch: option.section({
        allow_private: option.flag("Whether web pages may be fetched from loopback and private addresses.", {
          default: false,
        }),
      }),
    }),
    limits: option.section({
      concurrent_runs: option.integer("Runs at the same time; beyond it 503.", { min: 1, default: concurrentRuns }),
      streams,
      connections,
      attachment_bytes: option.integer("Attachments of all runs under way together; beyond it 503.", {
        min: 1,
        default: attachedBytes,
      }),
      json_depth,
      frame_bytes,
      tool_output_bytes: option.integer("Kept of a tool's output; the middle of a longer one is cut.", {
        min: 1024,
        default: toolOutputBytes,
      }),
      budget: option.section({
        usd: option.number("What a run may cost, in USD.", money),
        tokens: option.integer("Prompt and completion tokens of a run.", { min: 1, max: BUDGET_LIMITS.tokens }),
        seconds: option.number("How long a run may take; the wait for people's answers is left out.", {
          unit: "seconds",
          above: 0,
          max: BUDGET_LIMITS.seconds,
        }),
      }),
      session_budget: option.section({
        usd: option.number("What all runs of a session may cost together, in USD.", money),
        tokens: option.integer("Their prompt and completion tokens.", { min: 1, max: BUDGET_LIMITS.tokens }),
      }),
      unknown_price: option.section(
        {
          input: option.number("Of a prompt of a model whose price nobody knows.", { ...price, required: true }),
          output: option.number("Of its answer.", { ...price, required: true }),
        },
        { optional: true },
      ),
      header_timeout: seconds("Time for a request's headers.", headerTimeout),
      request_timeout: seconds("Time for a whole request to arrive.", requestTimeout),
      keep_alive_timeout: seconds("How long an idle connection is kept.", keepAliveTimeout),
    }),
    log: option.section({
      level: option.oneOf(
        ["debug", "info", "warn", "error"],
        '`"debug"`, `"info"`, `"warn"` or `"error"`. The log goes to stderr; keys are redacted from it.',
        { default: "info" },
      ),
    }),
    $schema: option.text(
      "Where an editor finds what may stand here; the package has it as `gantry/config.schema.json`.",
    ),
  },
  { expected: "an object" },
);

/** The validated configuration with defaults. Keys are in camelCase. */
export type Config = option.Value<typeof configOptions>;
