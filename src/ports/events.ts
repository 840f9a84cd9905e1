import type { EndedBy, Usage } from "./usage.js";
import type { FilePart, ImagePart } from "./message.js";
import type { Diff, Location, ToolKind } from "./tool-display.js";

export type { EndedBy } from "./usage.js";

/**
 * Events of a running run, for telemetry. Adjacent `token` events may be merged and, under backpressure, dropped. Other
 * events are never dropped, except `tool_progress`.
 */
export type AgentEvent =
  | {
      type: "token";
      agentId: string;
      agentName: string;
      /** Id of the stored message that is growing. */
      messageId: string;
      /** Exactly one of `text` and `reasoning` is set. */
      text?: string;
      reasoning?: string;
    }
  | {
      /** The call is stored and about to run. */
      type: "tool_call";
      messageId: string;
      callId: string;
      name: string;
      /** JSON text exactly as the model sent it. */
      arguments: string;
      /** The parsed arguments. Undefined if they are invalid JSON. */
      input: unknown;
      title: string;
      kind: ToolKind;
      locations: readonly Location[];
    }
  | {
      type: "tool_result";
      /** Id of the stored tool message. */
      messageId: string;
      callId: string;
      name: string;
      output: string;
      failed: boolean;
      /**
       * True if the call was denied and did not run. A person, a rule, a policy or the mode denied it, or no client
       * could be asked.
       */
      refused?: true | undefined;
      parts: readonly (ImagePart | FilePart)[];
      diff: readonly Diff[];
      locations: readonly Location[];
    }
  /** Output that a running tool printed since the last such event. For a slow reader these events are dropped first. */
  | { type: "tool_progress"; callId: string; text: string }
  | {
      /** An instruction sent to the run, added to the conversation as a user message. */
      type: "steered";
      /** Id of the stored message. */
      messageId: string;
      text: string;
    }
  | {
      type: "compaction";
      strategy: string;
      /** Number of messages that the model now sees. */
      messages: number;
      /** Prompt tokens before the compaction. */
      tokens: number;
    }
  | {
      /** A model call failed and is retried. The text of the answer so far stays; the following tokens continue it. */
      type: "retry";
      /** Attempt number within one answer, from 1. */
      attempt: number;
      delayMs: number;
      error: Error;
      /** The interrupted stored message. `""` if the answer had no content yet. */
      messageId: string;
    }
  /** Last event of a successful run. */
  | { type: "done"; usage: Usage; endedBy: EndedBy }
  /** Last event of an unsuccessful run, with the error that `Run.result` rejects with. */
  | { type: "error"; error: Error };
