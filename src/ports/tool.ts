import type { Ask } from "./ask.js";
import type { FileKeeper } from "./file-history.js";
import type { BackgroundWork } from "./background.js";
import type { FilePart, ImagePart } from "./message.js";
import type { Diff, Location, ToolKind } from "./tool-display.js";
import type { Helper, SpawnInput } from "./spawn.js";
import type { Skill } from "./skill.js";

export type { Diff, Location, ToolKind } from "./tool-display.js";

/** JSON Schema of an object. */
export interface JsonSchema {
  readonly [key: string]: unknown;
}

/** What a model is told of a tool, and what the kernel needs to schedule it. */
export interface ToolSpec {
  /** `[a-zA-Z0-9_-]{1,64}`, unique in an agent. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, an object. */
  readonly inputSchema: JsonSchema;
  readonly kind: ToolKind;
  /** Whether calls may run beside other calls of the same answer. */
  readonly parallel: boolean;
  /** Whether a person is asked first, where a client can ask. */
  readonly needsPermission: boolean;
  /** Where it comes from, as permission rules may name it: `mcp:server/tool`. Left out: it is known by its name alone. */
  readonly origin?: string | undefined;
  /** Whether it is of use only where somebody is there to answer: the models of other runs are not told of it. Default false. */
  readonly needsPerson?: boolean | undefined;
  /** Whether it is of use only where there are skills: the models of other runs are not told of it. Default false. */
  readonly needsSkills?: boolean | undefined;
  /** Which models are told of it, by the name of the provider and the model's id. Default all. */
  models?(model: { readonly provider: string; readonly id: string }): boolean;
  /** Names of tools in whose place it stands: a model that is told of it is not told of them. */
  readonly replaces?: readonly string[] | undefined;
}

/** What a call brought, for the model and for people. */
export interface ToolOutput {
  /** What the model reads. */
  text: string;
  parts?: readonly (ImagePart | FilePart)[] | undefined;
  diff?: readonly Diff[] | undefined;
  locations?: readonly Location[] | undefined;
  /** The tool did its work and that work says no (a command's exit code 1): a failed result, without a throw. */
  failed?: boolean | undefined;
}

/** What a person is asked before a tool runs. */
export interface AskRequest {
  callId: string;
  tool: string;
  title: string;
  kind: ToolKind;
  input: unknown;
  locations: readonly Location[];
  /** What it would change, as far as the arguments and the files tell. */
  diff?: readonly Diff[] | undefined;
  /** Why it is asked, where the agent's permission policy says so. */
  reason?: string | undefined;
  /** What may be answered, where it is no permission that is asked for. */
  question?: Pick<Ask, "choices" | "freeText"> | undefined;
}

/** Something that a tool wants to know of a person. */
export interface Question {
  /** The question. */
  title: string;
  /** What may be chosen, each a label; left out: none, and text is awaited. */
  choices?: readonly string[] | undefined;
  /** Whether text may be given in place of a choice; default whether there are no choices. */
  freeText?: boolean | undefined;
}

/** A call that a model wants to make; its arguments are checked. */
export interface ToolCall {
  readonly runId: string;
  /** The chain's first session. */
  readonly sessionId: string;
  readonly callId: string;
  /** Absolute path of the folder that the session works on. */
  readonly projectDir: string;
  readonly tool: ToolSpec;
  /** The arguments as the model sent them, parsed. */
  readonly input: unknown;
  /** How people are shown it. */
  readonly title: string;
  readonly locations: readonly Location[];
  /** What it would change, as far as the arguments tell. */
  readonly diff: readonly Diff[];
  /** Names of other tools whose work it does. */
  readonly actsAs?: readonly string[] | undefined;
  /** Places of which it tells, or takes along, what is there. */
  readonly reads?: readonly Location[] | undefined;
}

/**
 * Anything else counts as `reject`. `allow_always` is kept with the session: for edits of the same files, of any other
 * tool for the very same call.
 */
export type AskAnswer = "allow" | "allow_always" | "reject";

/** Where a call runs, and what it may ask for. */
export interface ToolContext {
  readonly runId: string;
  readonly sessionId: string;
  readonly callId: string;
  /** Absolute path of the folder that the session works on. */
  readonly projectDir: string;
  /** Further folders that the run may use, as whoever began it said; absolute paths. Left out: none. */
  readonly folders?: readonly string[] | undefined;
  /** Aborted when the run is; a tool ends what it started and then settles. */
  readonly signal: AbortSignal;
  /** Ask the person at the client; resolves `allow` where nobody can be asked. */
  ask(request: Omit<AskRequest, "callId" | "tool" | "kind" | "question">): Promise<AskAnswer>;
  /** Put a question to whoever is there: the label that was chosen, or the text given; undefined when nobody is there, or nobody answers. */
  question(question: Question): Promise<string | undefined>;
  /** Show people what the call has printed since this was said last; kept nowhere, and no part of its output. Never throws. */
  progress(text: string): void;
  /**
   * Begin a helper: a run in a session of its own, on the same folder and with the same model. It may do no more than the run
   * that the call is of, asks that one's people, and what it spends is spent there too. What it does is shown as the
   * call's progress, a line for each of its tool calls. It ends with the call at the latest, and is cancelled with its run.
   * Rejects as `Agent.run`: with `InputError`, or `TooManyRunsError` where it has no place.
   */
  spawn(input: SpawnInput): Promise<Helper>;
  /**
   * What the session's tools remember of each other (files read, todo list). What a call sets to plain JSON is stored
   * with its result and found again by any process; anything else lives as long as this one.
   */
  readonly state: Map<string, unknown>;
  /** Told of each file before it is changed, so that it can be undone; left out: nobody keeps that. */
  readonly history?: FileKeeper | undefined;
  /** Those that the model was told of. */
  readonly skills?: readonly Skill[] | undefined;
}

/** How a call is shown to a person. */
export interface ToolCallDescription {
  /** One line, for instance `Read src/index.ts`. */
  title: string;
  locations: readonly Location[];
  /** What it would change, as far as the arguments tell; of a file only the piece that they speak of. */
  diff?: readonly Diff[] | undefined;
  /** Names of tools whose work the call does: rules for theirs are for this one as well. */
  actsAs?: readonly string[] | undefined;
  /** Places of which a call that is no reading tells, or takes along, what is there: rules that keep `read` from them keep it as well. */
  reads?: readonly Location[] | undefined;
}

/** What a person who is asked about a call is shown of what it would do. */
export interface ToolCallPreview {
  /** What it would change. */
  diff?: readonly Diff[] | undefined;
  /** What the diff does not show, in a sentence. */
  note?: string | undefined;
}

/** Something the model may call. */
// `any`: tools of different argument types live in one list; each sees only what its own `parse` returned.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export interface Tool<Args = any> extends ToolSpec {
  /** Check what the model sent. Throws `ToolInputError`; its message is shown to the model. */
  parse(input: unknown): Args;
  /** For people; must not touch the disk and must not throw. */
  describe(args: Args, projectDir: string): ToolCallDescription;
  /**
   * What a person is shown in place of the description's diff, by what is there now; asked when they are asked, and
   * before. Takes two seconds at most, or goes without; a throw is as nothing.
   */
  preview?(args: Args, context: Pick<ToolContext, "projectDir" | "folders" | "signal">): Promise<ToolCallPreview>;
  /** Do the work. A throw becomes a failed tool result, never a failed run. */
  run(args: Args, context: ToolContext): Promise<ToolOutput>;
  /** What it keeps going beside its calls; several tools may share it. Its sessions tell it to whoever watches them. */
  readonly background?: BackgroundWork | undefined;
  /** End what is kept from one call to the next. Called when an agent closes, which others may share it with. */
  close?(): Promise<void>;
}
