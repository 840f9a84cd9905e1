import type { Ask } from "./ask.js";
import type { FileRecorder } from "./file-history.js";
import type { BackgroundWork } from "./background.js";
import type { FilePart, ImagePart } from "./message.js";
import type { Diff, Location, ToolKind } from "./tool-display.js";
import type { Subagent, SpawnInput } from "./spawn.js";
import type { Skill } from "./skill.js";
import type { WebSearchAnswer } from "./web-search.js";

export type { Diff, Location, ToolKind } from "./tool-display.js";

/** JSON Schema of an object. */
export interface JsonSchema {
  readonly [key: string]: unknown;
}

/** Description of a tool for the model, with the data that the kernel needs to schedule its calls. */
export interface ToolSpec {
  /** `[a-zA-Z0-9_-]{1,64}`, unique in an agent. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, an object. */
  readonly inputSchema: JsonSchema;
  readonly kind: ToolKind;
  /** Whether calls may run in parallel with other calls of the same answer. */
  readonly parallel: boolean;
  /** Whether a person must allow each call, if a client can ask. */
  readonly needsPermission: boolean;
  /** Origin of the tool for permission rules, for instance `mcp:server/tool`. Undefined: rules match only its name. */
  readonly origin?: string | undefined;
  /** Whether the tool needs a user who answers. Runs without one hide it from their models. Default false. */
  readonly needsUser?: boolean | undefined;
  /** Whether the tool needs skills. Runs without skills hide it from their models. Default false. */
  readonly needsSkills?: boolean | undefined;
  /** Whether a model gets the tool, by provider name and model id. Default: every model gets it. */
  models?(model: { readonly provider: string; readonly id: string }): boolean;
  /** Names of tools that this tool replaces: a model that gets this tool does not get the named tools. */
  readonly replaces?: readonly string[] | undefined;
}

/** Result of a call, for the model and for people. */
export interface ToolOutput {
  /** Text for the model. */
  text: string;
  parts?: readonly (ImagePart | FilePart)[] | undefined;
  diff?: readonly Diff[] | undefined;
  locations?: readonly Location[] | undefined;
  /**
   * True if the tool worked but its result is negative, such as a command's exit code 1. The result counts as failed,
   * without a throw.
   */
  failed?: boolean | undefined;
  /** How a command of the tool ended, for people who run commands themselves. Neither stored nor sent to a model. */
  commandEnd?: CommandEnd | undefined;
}

/** The end of a command. */
export interface CommandEnd {
  /** Null if a signal or the time limit ended the command. */
  readonly exitCode: number | null;
  /** The output without notes for the model. */
  readonly output: string;
  /** Whether the middle of the output was removed. */
  readonly truncated: boolean;
  readonly timedOut: boolean;
}

/** A permission request before a tool runs, or a running tool's question, to a person. */
export interface AskRequest {
  callId: string;
  tool: string;
  title: string;
  kind: ToolKind;
  input: unknown;
  locations: readonly Location[];
  /** The change that the call would make, as far as the arguments and the files show it. */
  diff?: readonly Diff[] | undefined;
  /** Reason for the request, if the agent's permission policy gives one. */
  reason?: string | undefined;
  /** Choices of a question. Undefined for a permission request. */
  question?: Pick<Ask, "choices" | "freeText"> | undefined;
}

/** A question of a tool to a person. */
export interface Question {
  /** Text of the question. */
  title: string;
  /** Labels to choose from. Undefined: no choices, the answer is text. */
  choices?: readonly string[] | undefined;
  /** Whether the answer may be text instead of a choice. Default: true if there are no choices. */
  freeText?: boolean | undefined;
}

/** A requested call with checked arguments, and its presentation. */
export interface ToolCall extends Readonly<ToolCallDescription> {
  readonly runId: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly callId: string;
  /** Absolute path of the session's project folder. */
  readonly projectDir: string;
  readonly tool: ToolSpec;
  /** The parsed arguments. Names and units of other agents are converted to those of the tool. */
  readonly input: unknown;
  readonly diff: readonly Diff[];
}

/**
 * Decision of a person; any other value counts as `reject`. `allow_always` is stored with the session. For edits, the
 * stored permission covers the same files; for other tools, it covers identical calls only.
 */
export type PermissionDecision = "allow" | "allow_always" | "reject";

/** Environment of a call, and the requests that it can make. */
export interface ToolContext {
  readonly runId: string;
  readonly sessionId: string;
  readonly callId: string;
  /** Absolute path of the session's project folder. */
  readonly projectDir: string;
  /** Further folders that the run may use, as its caller requested. Absolute paths. Undefined: none. */
  readonly folders?: readonly string[] | undefined;
  /** Aborts with the run. The tool then ends what it started and settles. */
  readonly signal: AbortSignal;
  /**
   * Aborts when a person moves the call to the background. A tool with background work then returns at once, and its
   * work continues there. Other tools ignore it. Undefined: the call cannot be moved.
   */
  readonly backgroundSignal?: AbortSignal | undefined;
  /** Asks the person at the client for permission. Resolves with `allow` if no person can be asked in mode `auto`. */
  ask(request: Omit<AskRequest, "callId" | "tool" | "kind" | "question">): Promise<PermissionDecision>;
  /**
   * Asks the user a question. Resolves with the chosen label or the text, or undefined if no user is present or no
   * answer comes.
   */
  askUser(question: Question): Promise<string | undefined>;
  /**
   * Shows people the output since the last call of this function. The text is not stored and not part of the result.
   * Never throws.
   */
  progress(text: string): void;
  /**
   * Starts a subagent: a run in its own session, with the same folder and model.
   *
   * - It has at most the permissions of the parent run, asks the parent's users, and its usage counts for the parent
   *   too.
   * - Its tool calls are shown as progress of this call, one line each.
   * - It ends with this call at the latest, and is cancelled with the parent run.
   *
   * Rejects like `Agent.run`: with `InputError`, or with `TooManyRunsError` if no slot is free.
   */
  spawn(input: SpawnInput): Promise<Subagent>;
  /**
   * Shared state of the session's tools (files read, todo list). Plain JSON that a call sets is stored with its result,
   * and every process finds it again. Other values exist only in this process.
   */
  readonly state: Map<string, unknown>;
  /** Records each file before a change, so that the change can be undone. Undefined: no recording. */
  readonly history?: FileRecorder | undefined;
  /** Skills listed in the model's prompt. Undefined: none. */
  readonly skills?: readonly Skill[] | undefined;
  /**
   * Searches the web through the provider of the session's model. The usage counts for the run. Rejects with
   * `ToolError` if the provider has no web search, with `ProviderError`, `BudgetExceededError` or the reason of `signal`.
   */
  searchWeb?(query: string, signal: AbortSignal): Promise<WebSearchAnswer>;
}

/** Presentation of a call for people. */
export interface ToolCallDescription {
  /** Single line, for instance `Read src/index.ts`. */
  title: string;
  locations: readonly Location[];
  /** The change that the call would make, as far as the arguments show it. For a file: only the affected piece. */
  diff?: readonly Diff[] | undefined;
  /** Names of tools whose work the call does. Permission rules for those tools also apply to this call. */
  actsAs?: readonly string[] | undefined;
  /**
   * Locations whose content the call reveals or copies, for a tool that is not a reading tool. Rules that deny `read`
   * there also deny this call.
   */
  reads?: readonly Location[] | undefined;
}

/** Effects of a call, shown to the person who decides on it. */
export interface ToolCallPreview {
  /** The change that the call would make. */
  diff?: readonly Diff[] | undefined;
  /** A sentence on effects that the diff does not show. */
  note?: string | undefined;
}

/** A tool that a model can call. */
// `any`: tools of different argument types live in one list; each sees only what its own `parse` returned.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export interface Tool<Args = any> extends ToolSpec {
  /** Validates the model's arguments. Throws `ToolInputError`; the model sees its message. */
  parse(input: unknown): Args;
  /** Describes the call for people. Must not use the disk and must not throw. */
  describe(args: Args, projectDir: string): ToolCallDescription;
  /**
   * Diff for the person who decides, computed from the current files. Replaces the diff of `describe`. Called before
   * a permission request. After two seconds or an error, the request is sent without a preview.
   */
  preview?(args: Args, context: Pick<ToolContext, "projectDir" | "folders" | "signal">): Promise<ToolCallPreview>;
  /** Runs the call. An error becomes a failed tool result, never a failed run. */
  run(args: Args, context: ToolContext): Promise<ToolOutput>;
  /** Background work of the tool, possibly shared by several tools. Sessions report it to their watchers. */
  readonly background?: BackgroundWork | undefined;
  /** Ends state that lasts longer than a call. Called when an agent closes; other agents may share the tool. */
  close?(): Promise<void>;
}
