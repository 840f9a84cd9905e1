import type { CompactionOptions } from "./compaction.js";
import { InputError } from "./errors.js";
import { isRecord } from "./json.js";
import type { CatalogueCache } from "./models.js";
import type { Logger } from "./ports/logger.js";
import type { ModelProvider } from "./ports/model-provider.js";
import type { ReasoningEffort, SessionDriver } from "./ports/session-driver.js";
import type { Tool } from "./ports/tool.js";

export interface AgentOptions {
  /** In order of preference. */
  providers: readonly ModelProvider[];
  /** Default: sessions in memory, gone with the process. */
  driver?: SessionDriver;
  /** Default: none. */
  tools?: readonly Tool[];
  /** Absolute path of the folder to work on; default the working directory. */
  projectDir?: string;
  /** Added to the system prompt. */
  systemPrompt?: string;
  /** Model calls of one run; default 100. */
  maxIterations?: number;
  /** Runs at the same time; default 512. */
  maxConcurrentRuns?: number;
  /** Bytes of the attachments of all runs together; default 256 MiB. */
  maxAttachedBytes?: number;
  /** Bytes kept of a tool's output; default 1 MiB. */
  toolOutputBytes?: number;
  /** How sessions outlive the model's window. */
  compaction?: CompactionOptions;
  preferred?: { provider?: string; model?: string; reasoningEffort?: ReasoningEffort };
  /** How long a run waits for a model to be found, in ms; default 30,000. */
  modelTimeoutMs?: number;
  /** A model listing older than this is asked for again when somebody looks, in ms; 0: never; default 300,000. */
  catalogueRefreshMs?: number;
  /** Where model listings outlive the process; default nowhere. */
  catalogue?: CatalogueCache;
  logger?: Logger;
}

/** Every level of reasoning that there is. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high"];

const KNOWN: Readonly<Record<keyof AgentOptions, true>> = {
  providers: true,
  driver: true,
  tools: true,
  projectDir: true,
  systemPrompt: true,
  maxIterations: true,
  maxConcurrentRuns: true,
  maxAttachedBytes: true,
  toolOutputBytes: true,
  compaction: true,
  preferred: true,
  modelTimeoutMs: true,
  catalogueRefreshMs: true,
  catalogue: true,
  logger: true,
};

/** What TypeScript would have refused, for those who write JavaScript. Throws `InputError`. */
export function checkOptions(options: unknown): void {
  if (!isRecord(options)) throw new InputError("options", "an object with `providers`");
  for (const key of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, key)) throw new InputError(key, `one of ${Object.keys(KNOWN).join(", ")}`);
  }
  parts("providers", options["providers"], "model providers", ["models", "stream", "close"]);
  if (options["tools"] !== undefined) parts("tools", options["tools"], "tools", ["parse", "describe", "run"]);
  if (options["driver"] !== undefined)
    members("driver", options["driver"], "a session driver, with", ["open", "create", "write"]);
  const { preferred } = options;
  if (isRecord(preferred)) oneOf("preferred.reasoningEffort", EFFORTS, preferred["reasoningEffort"] ?? "");
}

/** Throws `InputError` unless `value` is one of the names. */
export function oneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
}

function parts(field: string, value: unknown, what: string, wanted: readonly string[]): void {
  if (!Array.isArray(value)) throw new InputError(field, `a list of ${what}`);
  value.forEach((one, i) => members(`${field}[${i}]`, one, `one of the ${what}, with`, wanted));
}

function members(field: string, value: unknown, what: string, wanted: readonly string[]): void {
  const given = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const missing = ["name", ...wanted].filter(
    (name) => typeof given[name] !== (name === "name" ? "string" : "function"),
  );
  if (missing.length > 0) throw new InputError(field, `${what} ${missing.join(", ")}`);
}
