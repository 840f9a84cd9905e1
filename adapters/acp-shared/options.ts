import { isRecord, option, sharedOptions } from "gantry/plugin";

/** A login method, as listed by `initialize`. */
export interface AuthMethod {
  id: string;
  name: string;
  description?: string;
  [key: string]: unknown;
}

/** The login method for editors if the config lists none. */
export const PROVIDER_KEY_METHOD = {
  id: "provider-key",
  type: "agent",
  name: "API key of a model provider",
  description:
    "Set the key variable of a model provider, such as ANTHROPIC_API_KEY or OPENAI_API_KEY, in gantry's environment, or providers in config.json",
};

const EDITOR_NAMES = [
  "zed",
  "agent-shell",
  "CodeCompanion.nvim",
  "acpx",
  "JetBrains.*",
  "Agentic.nvim",
  "obsidian-agent-client",
  "toad",
  "vscode-acp-client",
];

const authMethod = option.custom<AuthMethod>("", {
  expected: "an object with id and name",
  type: "object",
  json: {
    type: "object",
    required: ["id", "name"],
    properties: { id: { type: "string", minLength: 1 }, name: { type: "string" } },
  },
  fits: (value) => isRecord(value) && typeof value.id === "string" && value.id !== "" && typeof value.name === "string",
});

/** Options of both ACP transports under `acp`. */
export const acpEntries = {
  profile: option.oneOf(
    ["auto", "spec", "official"],
    'Which schema applies where gantry\'s interface differs from the official one: `"spec"`, `"official"`, or `"auto"` (by client). Flag `--acp-profile`.',
    { default: "auto" },
  ),
  official_clients: option.list(
    option.text("Name of a client."),
    'Names (`clientInfo.name`) of clients that use the official schema with `"auto"`; a `*` at the end matches any text. [docs/acp.md](acp.md#two-profiles) has the default.',
    { default: EDITOR_NAMES },
  ),
  mcp: option.flag(
    'Whether to use MCP servers (`mcpServers`) and folders (`additionalDirectories`) of clients; `false`: accepted and ignored, even if invalid. Default `true`, or `false` if `profile` is `"spec"`.',
  ),
  auth_methods: option.list(
    authMethod,
    "Sent as `authMethods`. Default: none, and for [editors](acp.md#two-profiles) the method `provider-key`.",
    { default: [] },
  ),
  request_permission: option.flag("Ask the client before a tool runs that changes something.", { default: false }),
};

const { json_depth, frame_bytes } = sharedOptions;

/** Options of both ACP transports under `limits`. */
export const acpLimits = { json_depth, frame_bytes };

type AcpEntryValues = option.SectionValue<typeof acpEntries>;

/** Options of both ACP transports. */
export interface AcpOptions extends AcpEntryValues, option.SectionValue<typeof acpLimits> {}

/** Default options for embedders. */
export const ACP_DEFAULTS: AcpOptions = {
  ...option.read(option.section(acpEntries), {}, ""),
  ...option.read(option.section(acpLimits), {}, ""),
};
