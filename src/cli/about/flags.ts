import type { FlagSpecs } from "../about.js";

/** Flags of all commands that read the config. */
export const CONFIG_FLAGS = {
  config: {
    type: "string",
    value: "FILE",
    about: "config file (default ~/.gantry/config.json)",
    completes: "file",
  },
  sessionDriver: {
    type: "string",
    value: "NAME",
    about: "sqlite, json, postgres or a module (session.driver)",
  },
} as const satisfies FlagSpecs;

/** Flags of commands that serve, or that show what would be served. */
export const SERVING_FLAGS = {
  host: { type: "string", value: "HOST", about: "address to bind (server.host, default 127.0.0.1)" },
  port: { type: "string", value: "PORT", about: "port; 0 for any free one (server.port, default 8080)" },
  ...CONFIG_FLAGS,
  transport: {
    type: "string",
    isMultiple: true,
    value: "NAME",
    about: "a transport to start, may be repeated (server.transports)",
  },
  acp: { type: "boolean", about: "serve the Agent Client Protocol over HTTP" },
  stdio: { type: "boolean", about: "with --acp: over standard input and output" },
  acpProfile: { type: "string", value: "PROFILE", about: "auto, spec or official (acp.profile, default auto)" },
  insecure: { type: "boolean", about: "bind beyond loopback without authentication" },
} as const satisfies FlagSpecs;

/** Flag of commands with output for programs. */
export const JSON_FLAG = { json: { type: "boolean", about: "print JSON" } } as const satisfies FlagSpecs;

/** Flags for the model and mode of a run. */
export const MODEL_FLAGS = {
  model: {
    type: "string",
    value: "[PROVIDER/]MODEL",
    about: "the model (default: the session's, otherwise the configured one)",
  },
  effort: {
    type: "string",
    value: "LEVEL",
    choices: ["minimal", "low", "medium", "high", "xhigh", "max"],
    about: "reasoning effort of the model",
  },
  mode: {
    type: "string",
    value: "MODE",
    choices: ["auto", "ask", "plan"],
    about: "permission mode of the session, from now on",
  },
} as const satisfies FlagSpecs;

/** Flags for the session that a run continues. */
export const SESSION_FLAGS = {
  session: { type: "string", value: "ID", about: "continue this session" },
  continue: { type: "boolean", about: "continue the newest session of this folder" },
} as const satisfies FlagSpecs;
