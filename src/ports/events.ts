import type { EndedBy } from "./budget.js";
import type { FilePart, ImagePart } from "./message.js";
import type { Diff, Location, ToolKind } from "./tool.js";
import type { Usage } from "./usage.js";

export type { EndedBy } from "./budget.js";

/** What a run tells while it goes. Telemetry: tokens that come together may be joined, under backpressure also dropped; other events never. */
export type AgentEvent =
  | {
      type: "token";
      agentId: string;
      agentName: string;
      /** Id of the stored message that grows. */
      messageId: string;
      /** One of the two. */
      text?: string;
      reasoning?: string;
    }
  | {
      /** Stored, and about to run. */
      type: "tool_call";
      messageId: string;
      callId: string;
      name: string;
      /** JSON text as the model gave it. */
      arguments: string;
      /** Parsed; undefined when it is broken JSON. */
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
      /** Where it did not run because leave for it was refused: by a person, a rule, a policy, the mode, or because nobody could be asked. */
      refused?: true | undefined;
      parts: readonly (ImagePart | FilePart)[];
      diff: readonly Diff[];
      locations: readonly Location[];
    }
  /** What a running tool printed since this was told last; dropped before anything else of a reader that is slow. */
  | { type: "tool_progress"; callId: string; text: string }
  | {
      /** What somebody else told the run, put before its model as the user's. */
      type: "steered";
      /** Id of the stored message. */
      messageId: string;
      text: string;
    }
  | {
      type: "compaction";
      strategy: string;
      /** Messages that the model now sees. */
      messages: number;
      /** Prompt tokens before. */
      tokens: number;
    }
  | {
      /** A model call failed and is made again. What had been said of the answer stays; the tokens that follow go on from there. */
      type: "retry";
      /** From 1, within one answer. */
      attempt: number;
      delayMs: number;
      error: Error;
      /** The stored message that broke off; `""` when nothing of the answer was said. */
      messageId: string;
    }
  /** Last event of a run that succeeded. */
  | { type: "done"; usage: Usage; endedBy: EndedBy }
  /** Last event of one that did not; the same as `Run.result` rejects with. */
  | { type: "error"; error: Error };
