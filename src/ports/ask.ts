import type { Diff, Location, ToolKind } from "./tool-display.js";

/** `permission`: whether a tool may run. `question`: a tool needs information from a person. */
export type AskKind = "permission" | "question";

/** A choice that an ask offers. */
export interface AskChoice {
  /** Unique in its ask. For a permission: `allow`, `allow_always` or `reject`. */
  id: string;
  label: string;
}

/** A person's reply to an ask. */
export interface AskReply {
  /** Id of a choice; `""` if the reply is text. */
  choice: string;
  /** `""` if the reply has no text. */
  text: string;
}

/**
 * `open`: unanswered. `withdrawn`: the run ended or the deadline passed before an answer. An open ask of a dead run is
 * also reported as `withdrawn`.
 */
export type AskState = "open" | "answered" | "withdrawn";

/** A stored question of a run to a person. The first answer from any client counts; later answers are rejected. */
export interface Ask {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  runId: string;
  callId: string;
  kind: AskKind;
  tool: string;
  toolKind: ToolKind;
  /** Describes the call or asks the question, for the user. A single line. */
  title: string;
  /** The parsed arguments. Names and units of other agents are converted to those of the tool. */
  input: unknown;
  locations: readonly Location[];
  /** The change that the call would make, as far as the arguments and the files show it. */
  diff: readonly Diff[];
  /** Why the ask exists, and effects that the diff does not show. `""` if no reason was given. */
  reason: string;
  choices: readonly AskChoice[];
  /** Whether the reply may be text instead of a choice. */
  freeText: boolean;
  createdAt: string;
  /** Time of automatic withdrawal, ISO 8601 UTC. `""`: the ask is withdrawn when its run ends. */
  deadline: string;
  state: AskState;
  /** Null unless the ask was answered. */
  reply: AskReply | null;
  /** Client that sent the answer, for instance `http` or `acp`. `""` unless the ask was answered. */
  answeredBy: string;
  /** Time of the answer or the withdrawal, ISO 8601 UTC. `""` while the ask is open. */
  closedAt: string;
}
