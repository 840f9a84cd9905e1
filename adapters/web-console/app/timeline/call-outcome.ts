import type { ApiMessage } from "gantry/client";
import { toPlainText } from "../content/ansi.js";
import { escapeInvisible } from "../content/escape.js";
import { splitContent } from "./split-content.js";

/** How a tool call ended. */
export interface CallOutcome {
  readonly state: "done" | "failed" | "refused" | "stopped";
  /** Visible name of the state; `""` for `done`. */
  readonly label: string;
  /** Why the call failed or did not run, in one line; `""` if the label or the output says it. */
  readonly reason: string;
  /** Whether the result has output of the tool. */
  readonly hasOutput: boolean;
}

const MAX_REASON_CHARACTERS = 200;

/** Texts with which the server describes calls that did not run or did not end. The model receives the same texts. */
const DESCRIPTIONS: readonly [pattern: RegExp, outcome: Omit<CallOutcome, "reason">][] = [
  [/^The user rejected this call/, { state: "refused", label: "refused by you", hasOutput: false }],
  [/^This call is not allowed:/, { state: "refused", label: "refused by a rule", hasOutput: false }],
  [/^This call was refused:/, { state: "refused", label: "refused by a hook", hasOutput: false }],
  [/^The session is in plan mode:/, { state: "refused", label: "refused in plan mode", hasOutput: false }],
  [/^This call needs permission and no client/, { state: "refused", label: "not answered", hasOutput: false }],
  [/^\[cancelled before it ran\]/, { state: "stopped", label: "stopped before it ran", hasOutput: false }],
  [/^\[interrupted: outcome unknown\]/, { state: "stopped", label: "interrupted", hasOutput: false }],
  [/\[stopped with the run, [^\]]*\]\s*$/, { state: "stopped", label: "stopped", hasOutput: true }],
];

/** Reads how a call ended from its result. */
export function readOutcome({ content, failed }: ApiMessage): CallOutcome {
  if (!failed) return { state: "done", label: "", reason: "", hasOutput: true };
  const { text } = splitContent(content);
  const [, description] = DESCRIPTIONS.find(([pattern]) => pattern.test(text)) ?? [];
  if (description?.state === "stopped") return { ...description, reason: "" };
  return { ...(description ?? { state: "failed", label: "failed", hasOutput: true }), reason: readReason(text) };
}

/** The last two lines: a command prints its error and its exit code last. */
function readReason(text: string): string {
  const lines = escapeInvisible(toPlainText(text)).trim().split("\n");
  const line = (lines.length > 1 ? lines.filter((line) => line.trim() !== "").slice(-2) : lines).join(" ");
  return line.length > MAX_REASON_CHARACTERS ? `${line.slice(0, MAX_REASON_CHARACTERS)} …` : line;
}
