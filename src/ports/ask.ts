import type { Diff, Location, ToolKind } from "./tool-display.js";

/** Whether a tool may run, or something that a tool wants to know. */
export type AskKind = "permission" | "question";

/** What a person may choose. */
export interface AskChoice {
  /** Unique in its ask. Of a permission `allow`, `allow_always` or `reject`. */
  id: string;
  /** As people read it. */
  label: string;
}

/** What a person said. */
export interface AskReply {
  /** Id of a choice; `""` where text was given in place of one. */
  choice: string;
  /** `""` without one. */
  text: string;
}

/**
 * `open`: nobody has answered. `withdrawn`: its run ended, or its time was up, before anybody did; told also of one
 * whose run is dead.
 */
export type AskState = "open" | "answered" | "withdrawn";

/** A question of a run to whoever is there: answered once, by the first, whichever door they use. */
export interface Ask {
  /** Unique in the store. */
  id: string;
  /** The chain's first session. */
  sessionId: string;
  runId: string;
  /** The tool call that it is about. */
  callId: string;
  kind: AskKind;
  /** Name of the tool. */
  tool: string;
  toolKind: ToolKind;
  /** One line. */
  title: string;
  /** The arguments as the model sent them, parsed. */
  input: unknown;
  locations: readonly Location[];
  /** What it would change, as far as the arguments and the files tell. */
  diff: readonly Diff[];
  /** Why it is asked, and what the diff does not show; `""` where nobody said. */
  reason: string;
  choices: readonly AskChoice[];
  /** Whether text may be given in place of a choice. */
  freeText: boolean;
  /** ISO 8601 UTC. */
  createdAt: string;
  /** When it is withdrawn by itself, ISO 8601 UTC; `""`: with its run. */
  deadline: string;
  state: AskState;
  /** Null unless it was answered. */
  reply: AskReply | null;
  /** By which door, for instance `http` or `acp`; `""` unless it was answered. */
  answeredBy: string;
  /** When it was answered or withdrawn, ISO 8601 UTC; `""` while it is open. */
  closedAt: string;
}
