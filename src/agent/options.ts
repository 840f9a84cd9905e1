import { isAbsolute } from "node:path";
import type { CompactionOptions } from "../compaction/compaction.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import type { CatalogueCache } from "../models/models.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";
import type { ModelPrices, ModelProvider, ReasoningEffort } from "../ports/model-provider.js";
import { EFFORTS } from "../models/efforts.js";
import { checkObject, checkObjects, checkOneOf } from "../run/input/input-checks.js";
import { UNATTENDED_POLICIES, type Unattended, PROMPT_USES, type PromptUse } from "../ports/agent-options.js";
import { checkRules } from "../run/permissions/rule-schema.js";
import type { SessionMode } from "../ports/session.js";
import { checkBudget, checkPrices } from "../run/input/budget-check.js";
import type { SessionBudget } from "../run/budget/limits.js";
import type { Budget } from "../ports/usage.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Worktrees } from "../ports/worktrees.js";
import type { Hooks } from "../ports/hooks.js";
import type { PermissionPolicy, PermissionRule } from "../ports/permission-policy.js";
import type { SlashCommand } from "../ports/slash-command.js";
import type { Tool } from "../ports/tool.js";
import type { McpServerFactory } from "../ports/mcp-server.js";
import type { ToolSource } from "../ports/tool-source.js";
import { SESSION_MODES } from "../sessions/session-modes.js";

/** Options of an agent. Only `providers` is required. */
export interface AgentOptions {
  /** In order of preference. */
  providers: readonly ModelProvider[];
  /** Default: sessions in memory, lost when the process ends. */
  driver?: SessionDriver | undefined;
  /**
   * Tools, and tool sources that are opened for each session. A function that creates the list is called once, before
   * the first run. Default: none.
   */
  tools?: readonly (Tool | ToolSource)[] | (() => Promise<readonly (Tool | ToolSource)[]>) | undefined;
  /**
   * Slash commands, in addition to the commands of gantry, of the project and of tool sources. Default: none.
   */
  commands?: readonly SlashCommand[] | undefined;
  /** Absolute paths of the operator's command folders, with one command per file. Default: none. */
  commandFolders?: readonly string[] | undefined;
  /** Opens MCP servers that a run's input names (`RunInput.mcpServers`). Default: runs cannot name MCP servers. */
  mcpServerFactory?: McpServerFactory | undefined;
  /**
   * Policies for tool calls, evaluated in order; the first policy that does not pass decides. If all pass, `rules`
   * decide.
   *
   * If no rule matches, tools that need permission ask. In mode `auto` they ask only if the run's client can answer,
   * and otherwise run.
   */
  permissions?: PermissionPolicy | readonly PermissionPolicy[] | undefined;
  /** Rules that allow calls, ask about them or deny them; the first matching rule decides. Default: none. */
  rules?: readonly PermissionRule[] | undefined;
  /** Default mode for new sessions; default `auto`. */
  mode?: SessionMode | undefined;
  /**
   * Policy for requests when no client can answer:
   *
   * - `reject` (default): denies the call.
   * - `allow`: allows the call. A question that is no permission request stays unanswered.
   * - `wait`: waits for a client for at most `askTimeoutSeconds`.
   */
  unattended?: Unattended | undefined;
  /** Maximum wait of a request when no client can answer, in seconds; default 300. */
  askTimeoutSeconds?: number | undefined;
  /** Maximum wait of a request after the last client that can answer disconnects, in seconds; default 60. */
  clientGraceSeconds?: number | undefined;
  /** Functions called before and after tool calls, and before model calls. Default: none. */
  hooks?: Hooks | undefined;
  /** Absolute path of the folder to work on. Default: the working directory. */
  projectDir?: string | undefined;
  /** Text for the system prompt. See `prompt` for its use. */
  systemPrompt?: string | undefined;
  /**
   * Use of `systemPrompt`. `extend` (default): appended to the built-in instructions. `replace`: used instead of them.
   * The project folder, the project's instructions and skills are included in both cases.
   */
  prompt?: PromptUse | undefined;
  /** Whether the prompt includes the project's `AGENTS.md` files, skills, branch and file tree; default true. */
  projectInstructions?: boolean | undefined;
  /** Absolute path of the folder with the user's own `AGENTS.md` and `skills`. Default: none. */
  home?: string | undefined;
  /** Absolute paths that are never read for a prompt, not even through a link. Default: none. */
  deniedPaths?: readonly string[] | undefined;
  /** Maximum model calls per run; default 100. */
  maxIterations?: number | undefined;
  /** Maximum concurrent runs; default 512. */
  concurrentRuns?: number | undefined;
  /** Maximum bytes of the attachments of all active runs; default 256 MiB. */
  attachmentBytes?: number | undefined;
  /** Maximum stored bytes of one tool output; default 1 MiB. */
  toolOutputBytes?: number | undefined;
  /** Budget of each run; `RunInput.budget` can only lower it. Default: no limit. */
  budget?: Budget | undefined;
  /** Budget of all runs of a session together. Default: no limit. */
  sessionBudget?: SessionBudget | undefined;
  /**
   * Price of models without a known price, in USD per million tokens. Undefined: such a model costs 0, and a run with a
   * USD budget cannot use it.
   */
  unknownPrice?: ModelPrices | undefined;
  /** Compaction of sessions that reach the model's context window. */
  compaction?: CompactionOptions | undefined;
  /** Provider, model and effort of runs whose input names none. Default: the first model, with its default effort. */
  model?:
    | { provider?: string | undefined; model?: string | undefined; reasoningEffort?: ReasoningEffort | undefined }
    | undefined;
  /** Maximum wait of a run until its model is found, in ms; default 30,000. */
  modelTimeoutMs?: number | undefined;
  /**
   * Maximum age of a model list, in seconds; default 300. An older list is fetched again at the next request for it. 0:
   * never.
   */
  catalogueRefreshSeconds?: number | undefined;
  /**
   * Stores the earlier contents of files that tools change, for `sessions.undo`; for example `folderHistory`. Default:
   * contents are not stored.
   */
  fileHistory?: FileHistory | undefined;
  /**
   * Creates Git worktrees for new sessions (`RunInput.worktree`); for example `gitWorktrees`. Default: sessions cannot
   * have worktrees.
   */
  worktrees?: Worktrees | undefined;
  /**
   * Whether clients may fork, rewind and undo (`session.rewind`); default true. The methods of `sessions` always work.
   */
  rewind?: boolean | undefined;
  /** Persistent cache of model lists. Default: no cache. */
  catalogue?: CatalogueCache | undefined;
  /** Default: nothing is logged. */
  logger?: Logger | undefined;
}

/** Maximum of delays in options, in seconds: a day. Timers support at most 24 days. */
const MAX_DELAY_SECONDS = 86_400;

const OPTION_NAMES: Readonly<Record<keyof AgentOptions, true>> = {
  providers: true,
  driver: true,
  tools: true,
  commands: true,
  commandFolders: true,
  mcpServerFactory: true,
  permissions: true,
  rules: true,
  mode: true,
  unattended: true,
  askTimeoutSeconds: true,
  clientGraceSeconds: true,
  hooks: true,
  projectDir: true,
  systemPrompt: true,
  prompt: true,
  projectInstructions: true,
  home: true,
  deniedPaths: true,
  maxIterations: true,
  concurrentRuns: true,
  attachmentBytes: true,
  toolOutputBytes: true,
  budget: true,
  sessionBudget: true,
  unknownPrice: true,
  compaction: true,
  model: true,
  modelTimeoutMs: true,
  catalogueRefreshSeconds: true,
  fileHistory: true,
  worktrees: true,
  rewind: true,
  catalogue: true,
  logger: true,
};

/** Checks options at run time, for callers without TypeScript. Throws `InputError`. */
export function checkOptions(options: unknown): void {
  if (!isRecord(options)) throw new InputError("options", "an object with `providers`");
  for (const key of Object.keys(options)) {
    if (!Object.hasOwn(OPTION_NAMES, key)) throw new InputError(key, `one of ${Object.keys(OPTION_NAMES).join(", ")}`);
  }
  checkObjects("providers", options["providers"], "model providers", ["models", "stream", "close"]);
  if (options["driver"] !== undefined)
    checkObject("driver", options["driver"], "a session driver, with", ["open", "create", "write"]);
  const { fileHistory } = options;
  if (fileHistory !== undefined && !(isRecord(fileHistory) && typeof fileHistory["recorder"] === "function"))
    throw new InputError("fileHistory", "a file history, for example from folderHistory()");
  const { worktrees } = options;
  if (worktrees !== undefined && !(isRecord(worktrees) && typeof worktrees["create"] === "function"))
    throw new InputError("worktrees", "a creator of worktrees, for example from gitWorktrees()");
  if (options["commands"] !== undefined) checkObjects("commands", options["commands"], "slash commands", ["prompt"]);
  const { permissions } = options;
  if (Array.isArray(permissions)) checkObjects("permissions", permissions, "permission policies", ["judge"]);
  else if (permissions !== undefined) checkObject("permissions", permissions, "a permission policy, with", ["judge"]);
  const { rules = [] } = options;
  if (!Array.isArray(rules) || rules.length > 0) checkRules("rules", rules);
  if (options["mode"] !== undefined) checkOneOf("mode", SESSION_MODES, options["mode"]);
  if (options["unattended"] !== undefined) checkOneOf("unattended", UNATTENDED_POLICIES, options["unattended"]);
  const { askTimeoutSeconds = 1 } = options;
  if (typeof askTimeoutSeconds !== "number" || !(askTimeoutSeconds > 0 && askTimeoutSeconds <= MAX_DELAY_SECONDS))
    throw new InputError("askTimeoutSeconds", "a number of seconds above 0, at most 86,400");
  const { clientGraceSeconds = 0 } = options;
  if (typeof clientGraceSeconds !== "number" || !(clientGraceSeconds >= 0 && clientGraceSeconds <= MAX_DELAY_SECONDS))
    throw new InputError("clientGraceSeconds", "a number of seconds from 0 to 86,400");
  const { budget, sessionBudget, unknownPrice } = options;
  if (!isEmpty(budget)) checkBudget("budget", budget);
  if (!isEmpty(sessionBudget)) checkBudget("sessionBudget", sessionBudget, ["usd", "tokens"]);
  if (unknownPrice !== undefined) checkPrices("unknownPrice", unknownPrice);
  if (options["hooks"] !== undefined) checkHooks(options["hooks"]);
  if (options["prompt"] !== undefined) checkOneOf("prompt", PROMPT_USES, options["prompt"]);
  if (typeof (options["home"] ?? "") !== "string") throw new InputError("home", "an absolute path");
  const { model, projectDir } = options;
  if (projectDir !== undefined && !(typeof projectDir === "string" && isAbsolute(projectDir)))
    throw new InputError("projectDir", "an absolute path, for example the result of path.resolve()");
  if (isRecord(model)) checkOneOf("model.reasoningEffort", EFFORTS, model["reasoningEffort"] ?? "");
}

export const HOOK_NAMES: Readonly<Record<keyof Hooks, true>> = {
  beforeToolCall: true,
  afterToolCall: true,
  beforeModelCall: true,
};

/** Rejects unknown names, because a hook with a misspelled name would never be called. Throws `InputError`. */
function checkHooks(hooks: unknown): void {
  if (!isRecord(hooks)) throw new InputError("hooks", "an object with hooks");
  for (const [name, hook] of Object.entries(hooks)) {
    checkOneOf("hooks", Object.keys(HOOK_NAMES), name);
    if (hook !== undefined && typeof hook !== "function") throw new InputError(`hooks.${name}`, "a function");
  }
}

const BUS_EVENT_NAMES: Readonly<Record<keyof BusEvents, true>> = {
  "session.created": true,
  "session.resume": true,
  "session.updated": true,
  "session.compacted": true,
  "session.forked": true,
  "session.reverted": true,
  "session.files_restored": true,
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
export const BUS_EVENTS = Object.keys(BUS_EVENT_NAMES) as readonly (keyof BusEvents)[];

/** Whether a value is undefined or a record without defined values, like most budgets. */
function isEmpty(value: unknown): boolean {
  return value === undefined || (isRecord(value) && Object.values(value).every((member) => member === undefined));
}
