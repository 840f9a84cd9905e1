import type { FlagSpecs } from "../command-description.js";

/** Fields of a flag whose value is a file. */
export const FILE_VALUE = { type: "string", value: "FILE", completionKind: "file" } as const;

/** Flags of all commands that read the config. */
export const CONFIG_FLAGS = {
  config: { ...FILE_VALUE, description: "config file (default ~/.gantry/config.json)" },
  sessionDriver: {
    type: "string",
    value: "NAME",
    description: "sqlite, json, postgres or a module (session.driver)",
  },
} as const satisfies FlagSpecs;

/** Flags of commands that serve, or that show what would be served. */
export const SERVING_FLAGS = {
  host: { type: "string", value: "HOST", description: "address to bind (server.host, default 127.0.0.1)" },
  port: { type: "string", value: "PORT", description: "port; 0 for any free one (server.port, default 8080)" },
  ...CONFIG_FLAGS,
  transport: {
    type: "string",
    isMultiple: true,
    value: "NAME",
    description: "a transport to start, may be repeated (server.transports)",
  },
  acp: { type: "boolean", description: "serve the Agent Client Protocol over HTTP" },
  stdio: { type: "boolean", description: "with --acp: over standard input and output" },
  acpProfile: { type: "string", value: "PROFILE", description: "auto, spec or official (acp.profile, default auto)" },
  insecure: { type: "boolean", description: "bind beyond loopback without authentication" },
} as const satisfies FlagSpecs;

/** Flag of commands with output for programs. */
export const JSON_FLAG = { json: { type: "boolean", description: "print JSON" } } as const satisfies FlagSpecs;

/** Flags for the model and mode of a run. */
export const MODEL_FLAGS = {
  model: {
    type: "string",
    value: "[PROVIDER/]MODEL",
    description: "the model (default: the session's, otherwise the configured one)",
  },
  effort: {
    type: "string",
    value: "LEVEL",
    choices: ["minimal", "low", "medium", "high", "xhigh", "max"],
    description: "reasoning effort of the model",
  },
  mode: {
    type: "string",
    value: "MODE",
    choices: ["auto", "ask", "plan"],
    description: "permission mode of the session, from now on",
  },
} as const satisfies FlagSpecs;

/** Flags for the session that a run continues. */
export const SESSION_FLAGS = {
  session: { type: "string", value: "ID", description: "continue this session" },
  continue: { type: "boolean", description: "continue the newest session of this folder" },
} as const satisfies FlagSpecs;
