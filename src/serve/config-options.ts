import { COMPACTION_DEFAULTS } from "../compaction/names.js";
import { HTTP_DEFAULTS } from "../http/defaults.js";
import { isRecord } from "../base/json.js";
import { EFFORTS } from "../models/efforts.js";
import * as option from "../plugin/options.js";
import { sharedOptions } from "../plugin/shared-options.js";
import { AGENT_DEFAULTS } from "../ports/agent-options.js";
import { isCommandGlob, isPathGlob, isToolGlob } from "../run/permissions/rule-schema.js";
import { PROMPT_USES } from "../ports/agent-options.js";
import { EXPECTED_VALUES, RULE_ACTIONS } from "../run/permissions/rule-format.js";
import { UNATTENDED_POLICIES } from "../ports/agent-options.js";
import { SESSION_MODES } from "../sessions/session-modes.js";
import { limits } from "./limit-options.js";
import { mcpServers } from "./mcp-options.js";
import { tools } from "./tool-options.js";

const { max_body_bytes } = sharedOptions;
const { host, port, maxEventLoopDelay } = HTTP_DEFAULTS;
const { maxIterations, catalogueRefreshSeconds, askTimeoutSeconds, clientGraceSeconds } = AGENT_DEFAULTS;
const { enabled, strategy, threshold, keepMessages, contextWindow } = COMPACTION_DEFAULTS;

/** Option for a module of an adapter: its name, or an object with its name and options. */
const moduleOption = <const Kind extends "transport" | "tool" | "policy" | "hook">(kind: Kind) =>
  option.custom<string | ({ readonly [Key in Kind]: string } & Readonly<Record<string, unknown>>)>("", {
    expected: `a ${kind}'s name, or an object with the key "${kind}" and its options`,
    type: "",
    json: {
      anyOf: [{ type: "string" }, { type: "object", required: [kind], properties: { [kind]: { type: "string" } } }],
    },
    fits: (value) => typeof value === "string" || (isRecord(value) && typeof value[kind] === "string"),
    required: true,
  });

const objectOption = option.custom<Readonly<Record<string, unknown>>>("", {
  expected: "an object",
  type: "object",
  json: { type: "object" },
  fits: isRecord,
  required: true,
});

/** All keys of `config.json` except the keys of adapters. Open sections can contain keys of adapters. */
export const configOptions = option.section(
  {
    server: option.section(
      {
        host: option.text(
          "Address to bind; flag `--host`. One beyond loopback needs `required_headers` or `insecure`.",
          { default: host },
        ),
        port: option.integer("Flag `--port`. 0 takes any free port, shown in the listen line.", {
          min: 0,
          max: 65535,
          default: port,
        }),
        required_headers: option.headers(
          "Headers that every request to `/api` and to paths of plugins must carry; case does not matter. With an empty value, any value is accepted, which does not authenticate.",
          { default: {} },
        ),
        tokens: option.text(
          "File with the tokens of [users](users.md), relative to gantry's home. Default: no users.",
          { default: "" },
        ),
        trusted_user_header: option.text(
          "Header in which a [reverse proxy](users.md#a-reverse-proxy) names the user.",
          { default: "" },
        ),
        trusted_proxies: option.list(
          option.text(""),
          "Addresses and networks (`10.0.0.0/8`) from which `trusted_user_header` is believed.",
          { default: [] },
        ),
        transports: option.list(
          moduleOption("transport"),
          'What `gantry serve` starts: `koa-http-api`, `web-console`, `acp-http-sse-ws`, `acp-stdio`, `mcp-stdio`, or a module; flag `--transport`. An object `{ "transport": name, … }` adds options.',
          { default: ["koa-http-api", "web-console"], filled: "transport" },
        ),
        console: option.flag("Serve the [console](console.md) if it is among the transports.", { default: true }),
        max_body_bytes,
        allow_cross_site: option.flag("Accept requests from web pages of other sites without authentication.", {
          default: false,
        }),
        allow_loopback_pages: option.flag(
          "Accept requests from web pages of other ports of this machine, such as a development server, without authentication.",
          { default: true },
        ),
        allow_other_users: option.flag(
          "Accept processes of other users of this machine without authentication. Only Linux can refuse them.",
          { default: false },
        ),
        allowed_hosts: option.list(
          option.text(""),
          "Further values of `Host` that are accepted without authentication.",
          { default: [] },
        ),
        drain_delay: option.number(
          "Delay between SIGTERM and the stop. Meanwhile the server works normally and `GET /api/ready` reports that it is draining.",
          { unit: "seconds", min: 0, max: 3_600, default: 0 },
        ),
        // The adapter describes and checks the entries.
        webhooks: option.list(objectOption, "", { default: [] }),
        max_event_loop_delay: option.number(
          "Delay of the event loop that means [overload](http-api-reference.md#overload). `0`: not measured.",
          { unit: "ms", min: 0, max: 60_000, default: maxEventLoopDelay },
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
        rewind: option.flag("Whether clients may fork and rewind sessions and [undo](sessions.md#undo) changes.", {
          default: true,
        }),
        worktrees: option.text(
          "Folder for the [worktrees](sessions.md#worktrees) of sessions, outside gantry's home. Default: beside it, with the same name and `-worktrees`.",
          { default: "" },
        ),
      },
      { open: true },
    ),
    providers: option.list(objectOption, "", { default: [] }),
    model: option.section({
      provider: option.text("Preferred provider, for runs that name none.", { default: "" }),
      model: option.text(
        "Preferred model. Default: the model of the newest session in the folder, otherwise the first available one.",
        { default: "" },
      ),
      reasoning_effort: option.oneOf(
        EFFORTS,
        '`""` (the model\'s own), `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"` or `"max"`; if a model does not support it, the nearest level.',
        { default: "" },
      ),
    }),
    catalogue: option.section({
      refresh: option.custom<number | false>(
        "Age in seconds after which a model list is requested again on use. `0`: only if a requested model is missing. `false`: like `0`, without price updates.",
        {
          fits: (value) => value === false || (typeof value === "number" && value >= 0 && value <= 86_400),
          expected: "a number of seconds from 0 to 86400, or false",
          type: "number, 0–86400 seconds, or false",
          json: { anyOf: [{ type: "number", minimum: 0, maximum: 86_400 }, { const: false }] },
          default: catalogueRefreshSeconds,
        },
      ),
    }),
    agent: option.section({
      max_iterations: option.integer("Maximum model calls of a run, which then ends with `finish_reason` `length`.", {
        min: 1,
        default: maxIterations,
      }),
      system_prompt: option.text("Added to the built-in system prompt.", { default: "" }),
      prompt: option.oneOf(
        PROMPT_USES,
        '`"extend"`: `system_prompt` is added to the instructions of gantry. `"replace"`: it replaces them. See [project.md](project.md#your-own-prompt).',
        { default: "extend" },
      ),
      project_instructions: option.flag(
        "Whether the model receives [project instructions](project.md): `AGENTS.md`, skills, branch and file tree. A cloned repository brings its own.",
        { default: true },
      ),
      tools: option.list(
        moduleOption("tool"),
        'Available tools, by name or module; `"*"` stands for all built-in ones. `["read", "list", "glob", "grep"]` changes nothing. An object `{ "tool": module, … }` adds options.',
        { default: ["*"] },
      ),
    }),
    mcp_servers: mcpServers,
    permissions: option.section({
      mode: option.oneOf(
        SESSION_MODES,
        '[Mode](permissions.md) of new sessions. `"auto"`: tools run. `"ask"`: changes and network access need permission. `"plan"`: nothing is changed.',
        { default: "auto" },
      ),
      rules: option.list(
        option.section({
          tool: option.text("Name of a tool, `mcp:server/tool` for a tool of an MCP server, or a glob for either.", {
            fits: (text) => isToolGlob(text),
            expected: EXPECTED_VALUES.tool,
            required: true,
          }),
          match: option.text(
            "For commands: their words, each a glob. A `*` alone or at the end matches any number of words.",
            { fits: (text) => isCommandGlob(text), expected: EXPECTED_VALUES.match },
          ),
          path: option.text(
            "Glob for the paths of a call, relative to the project folder or beginning with `/` or `~/`.",
            { fits: (text) => isPathGlob(text), expected: EXPECTED_VALUES.path },
          ),
          action: option.oneOf(RULE_ACTIONS, '`"allow"`, `"ask"` or `"deny"`.', { required: true }),
          reason: option.text("Reason that the model receives for a `deny`, and the user for an `ask`."),
        }),
        "Rules that allow, ask for or deny tool calls. The first match decides. See [permissions.md](permissions.md#rules).",
        { default: [] },
      ),
      policies: option.list(
        moduleOption("policy"),
        'Modules that decide on calls before the rules, in this order. An object `{ "policy": module, … }` adds options.',
        { default: [] },
      ),
      unattended: option.oneOf(
        UNATTENDED_POLICIES,
        'Policy when no client can answer a question: `"reject"`, `"allow"`, or `"wait"` for an answer until `timeout`.',
        { default: "reject" },
      ),
      timeout: option.number("How long a question waits for an answer while no client is connected.", {
        unit: "seconds",
        above: 0,
        max: 86_400,
        default: askTimeoutSeconds,
      }),
      client_grace: option.number("How long a question waits after the last client that can answer has disconnected.", {
        unit: "seconds",
        min: 0,
        max: 86_400,
        default: clientGraceSeconds,
      }),
    }),
    hooks: option.list(
      moduleOption("hook"),
      'Modules with hooks and event listeners, called in this order. An object `{ "hook": module, … }` adds options. See [hooks.md](hooks.md).',
      { default: [] },
    ),
    telemetry: option.section({}, { open: true }),
    compaction: option.section({
      enabled: option.flag("Whether conversations are compacted.", { default: enabled }),
      strategy: option.text(
        '`"summary"` keeps the first and the newest messages and a summary of the others by the model; `"sliding-window"` only those messages; or a module.',
        { default: strategy },
      ),
      threshold: option.number("Fraction of the context window at which compaction starts, above 0 and at most 1.", {
        above: 0,
        max: 1,
        default: threshold,
      }),
      keep_messages: option.integer("Number of newest messages that are kept.", { min: 1, default: keepMessages }),
      context_window: option.integer("Context window in tokens. 0: the model's own, or 128,000 if that is unknown.", {
        min: 0,
        default: contextWindow,
      }),
    }),
    tools,
    limits,
    log: option.section({
      level: option.oneOf(
        ["debug", "info", "warn", "error"],
        '`"debug"`, `"info"`, `"warn"` or `"error"`. The log goes to stderr; keys are redacted from it.',
        { default: "info" },
      ),
      format: option.oneOf(["text", "json"], '`"text"` or `"json"`, one object a line.', { default: "text" }),
    }),
    $schema: option.text("JSON Schema for editors. The package contains it as `gantry/config.schema.json`."),
  },
  { expected: "an object" },
);

/** The validated configuration with defaults. Keys are in camelCase. */
export type Config = option.Value<typeof configOptions>;
