import { isAbsolute } from "node:path";
import type { CompactionOptions } from "../compaction/compaction.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import type { CatalogueCache } from "../models/models.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";
import type { ModelPrices, ModelProvider, ReasoningEffort } from "../ports/model-provider.js";
import { EFFORTS } from "../models/efforts.js";
import { object, objects, oneOf } from "../run/input/run-input.js";
import { UNATTENDED, type Unattended } from "../ports/unattended.js";
import { PROMPT_USES, type PromptUse } from "../ports/prompt-use.js";
import { checkRules } from "../run/permissions/rule-schema.js";
import type { SessionMode } from "../ports/session.js";
import { checkBudget, checkPrice } from "../run/input/budget-check.js";
import type { SessionBudget } from "../run/budget/limits.js";
import type { Budget } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Hooks } from "../ports/hooks.js";
import type { PermissionPolicy, PermissionRule } from "../ports/permission-policy.js";
import type { SlashCommand } from "../ports/slash-command.js";
import type { Tool } from "../ports/tool.js";
import type { ToolServers } from "../ports/mcp-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import { SESSION_MODES } from "../sessions/session-modes.js";

/** What an agent is made of; providers alone are enough. */
export interface AgentOptions {
  /** In order of preference. */
  providers: readonly ModelProvider[];
  /** Default: sessions in memory, gone with the process. */
  driver?: SessionDriver | undefined;
  /** Tools, and sources that are opened for each session; or what makes them, asked before the first run. Default: none. */
  tools?: readonly (Tool | ToolSource)[] | (() => Promise<readonly (Tool | ToolSource)[]>) | undefined;
  /** What people may say by `/name words`, beside what is built in, the project's own and that of tool sources. Default: none. */
  commands?: readonly SlashCommand[] | undefined;
  /** Folders of such commands, one a file, of whoever runs the agent; absolute paths. Default: none. */
  commandFolders?: readonly string[] | undefined;
  /** Opens servers of tools that clients bring along (`RunInput.servers`). Default: there are none. */
  toolServers?: ToolServers | undefined;
  /**
   * Who judges calls, asked in order: the first that does not pass decides. Where all pass, `rules` do; where none of
   * them fits, tools that need permission ask where somebody can be asked, and run where nobody can.
   */
  permissions?: PermissionPolicy | readonly PermissionPolicy[] | undefined;
  /** Which calls run, are asked about and are refused; the first that fits decides. Default: none. */
  rules?: readonly PermissionRule[] | undefined;
  /** Of sessions that are new; default `auto`. */
  mode?: SessionMode | undefined;
  /**
   * What becomes of a question where nobody is there to answer it: it is refused (`reject`, the default), allowed
   * (`allow`; a question that is no permission stays unanswered), or waits for somebody (`wait`), as long as `askTimeout`.
   */
  unattended?: Unattended | undefined;
  /** How long a question waits for an answer where nobody is there, in seconds; default 300. */
  askTimeout?: number | undefined;
  /** How long a question waits after the last client that can answer has disconnected, in seconds; default 60. */
  clientGrace?: number | undefined;
  /** Default: none. */
  hooks?: Hooks | undefined;
  /** Absolute path of the folder to work on; default the working directory. */
  projectDir?: string | undefined;
  /** Added to the system prompt. */
  systemPrompt?: string | undefined;
  /**
   * `extend` (default): what is added comes behind how an agent works. `replace`: in place of that; the folder, what the
   * project says and skills are told all the same.
   */
  prompt?: PromptUse | undefined;
  /** Whether a model is told what the project says: its `AGENTS.md` files, skills, branch and tree; default true. */
  projectInstructions?: boolean | undefined;
  /** Folder of the user's own `AGENTS.md` and `skills`; absolute. Default none. */
  home?: string | undefined;
  /** Never read for a prompt, whatever leads there; absolute paths. Default none. */
  deniedPaths?: readonly string[] | undefined;
  /** Model calls of one run; default 100. */
  maxIterations?: number | undefined;
  /** Runs at the same time; default 512. */
  concurrentRuns?: number | undefined;
  /** Bytes of the attachments of all runs together; default 256 MiB. */
  attachedBytes?: number | undefined;
  /** Bytes kept of a tool's output; default 1 MiB. */
  toolOutputBytes?: number | undefined;
  /** What each run may cost at most; see `RunInput.budget` for less. Default: nothing is bounded. */
  budget?: Budget | undefined;
  /** What all runs of a session may cost together. Default: nothing is bounded. */
  sessionBudget?: SessionBudget | undefined;
  /** USD per million tokens of a model whose price nobody knows; left out, such a model costs 0, and is refused to a run with a budget in USD. */
  unknownPrice?: ModelPrices | undefined;
  /** How sessions outlive the model's window. */
  compaction?: CompactionOptions | undefined;
  /** Where a run names none. Default: the first model. */
  model?:
    | { provider?: string | undefined; model?: string | undefined; reasoningEffort?: ReasoningEffort | undefined }
    | undefined;
  /** How long a run waits for a model to be found, in ms; default 30,000. */
  modelTimeoutMs?: number | undefined;
  /** A model listing older than this is asked for again when somebody looks, in seconds; 0: never; default 300. */
  catalogueRefresh?: number | undefined;
  /** Keeps what files were before tools changed them, for `sessions.undo`: `folderHistory`. Default: nothing is kept. */
  fileHistory?: FileHistory | undefined;
  /** Where model listings outlive the process; default nowhere. */
  catalogue?: CatalogueCache | undefined;
  logger?: Logger | undefined;
}

const KNOWN: Readonly<Record<keyof AgentOptions, true>> = {
  providers: true,
  driver: true,
  tools: true,
  commands: true,
  commandFolders: true,
  toolServers: true,
  permissions: true,
  rules: true,
  mode: true,
  unattended: true,
  askTimeout: true,
  clientGrace: true,
  hooks: true,
  projectDir: true,
  systemPrompt: true,
  prompt: true,
  projectInstructions: true,
  home: true,
  deniedPaths: true,
  maxIterations: true,
  concurrentRuns: true,
  attachedBytes: true,
  toolOutputBytes: true,
  budget: true,
  sessionBudget: true,
  unknownPrice: true,
  compaction: true,
  model: true,
  modelTimeoutMs: true,
  catalogueRefresh: true,
  fileHistory: true,
  catalogue: true,
  logger: true,
};

/** What TypeScript would have refused, for those who write JavaScript. Throws `InputError`. */
export function checkOptions(options: unknown): void {
  if (!isRecord(options)) throw new InputError("options", "an object with `providers`");
  for (const key of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, key)) throw new InputError(key, `one of ${Object.keys(KNOWN).join(", ")}`);
  }
  objects("providers", options["providers"], "model providers", ["models", "stream", "close"]);
  if (options["driver"] !== undefined)
    object("driver", options["driver"], "a session driver, with", ["open", "create", "write"]);
  const { fileHistory } = options;
  if (fileHistory !== undefined && !(isRecord(fileHistory) && typeof fileHistory["keeper"] === "function"))
    throw new InputError("fileHistory", "a file history, as folderHistory() makes one");
  if (options["commands"] !== undefined) objects("commands", options["commands"], "slash commands", ["prompt"]);
  const { permissions } = options;
  if (Array.isArray(permissions)) objects("permissions", permissions, "permission policies", ["judge"]);
  else if (permissions !== undefined) object("permissions", permissions, "a permission policy, with", ["judge"]);
  const { rules = [] } = options;
  if (!Array.isArray(rules) || rules.length > 0) checkRules("rules", rules);
  if (options["mode"] !== undefined) oneOf("mode", SESSION_MODES, options["mode"]);
  if (options["unattended"] !== undefined) oneOf("unattended", UNATTENDED, options["unattended"]);
  const { askTimeout = 1 } = options;
  // Longer ones no timer holds.
  if (typeof askTimeout !== "number" || !(askTimeout > 0 && askTimeout <= 86_400))
    throw new InputError("askTimeout", "a number of seconds above 0, at most 86,400");
  const { clientGrace = 0 } = options;
  if (typeof clientGrace !== "number" || !(clientGrace >= 0 && clientGrace <= 86_400))
    throw new InputError("clientGrace", "a number of seconds from 0 to 86,400");
  const { budget, sessionBudget, unknownPrice } = options;
  if (!isEmpty(budget)) checkBudget("budget", budget);
  if (!isEmpty(sessionBudget)) checkBudget("sessionBudget", sessionBudget, ["usd", "tokens"]);
  if (unknownPrice !== undefined) checkPrice("unknownPrice", unknownPrice);
  if (options["hooks"] !== undefined) checkHooks(options["hooks"]);
  if (options["prompt"] !== undefined) oneOf("prompt", PROMPT_USES, options["prompt"]);
  if (typeof (options["home"] ?? "") !== "string") throw new InputError("home", "an absolute path");
  const { model, projectDir } = options;
  if (projectDir !== undefined && !(typeof projectDir === "string" && isAbsolute(projectDir)))
    throw new InputError("projectDir", "an absolute path, such as path.resolve() makes of a relative one");
  if (isRecord(model)) oneOf("model.reasoningEffort", EFFORTS, model["reasoningEffort"] ?? "");
}

export const HOOKS: Readonly<Record<keyof Hooks, true>> = {
  beforeToolCall: true,
  afterToolCall: true,
  beforeModelCall: true,
};

/** One that is misspelt would guard nothing. */
function checkHooks(hooks: unknown): void {
  if (!isRecord(hooks)) throw new InputError("hooks", "an object with hooks");
  for (const [name, hook] of Object.entries(hooks)) {
    oneOf("hooks", Object.keys(HOOKS), name);
    if (hook !== undefined && typeof hook !== "function") throw new InputError(`hooks.${name}`, "a function");
  }
}

const NAMES: Readonly<Record<keyof BusEvents, true>> = {
  "session.created": true,
  "session.resume": true,
  "session.updated": true,
  "session.compacted": true,
  "session.forked": true,
  "session.reverted": true,
  "session.deleted": true,
  "run.started": true,
  "run.finished": true,
  "run.failed": true,
  "model.started": true,
  "model.called": true,
  "model.failed": true,
  "model.retried": true,
  "ask.opened": true,
  "ask.closed": true,
  "tools.failed": true,
  "tool.started": true,
  "tool.finished": true,
};
export const BUS_EVENTS = Object.keys(NAMES) as readonly (keyof BusEvents)[];

/** Whether a record says nothing: most budgets do. */
function isEmpty(value: unknown): boolean {
  return value === undefined || (isRecord(value) && Object.values(value).every((one) => one === undefined));
}
