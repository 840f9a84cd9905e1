import type { SessionMode } from "./session.js";
import type { ToolCall } from "./tool.js";

/** A call, and whether a person can be asked about it. */
export interface PermissionRequest extends ToolCall {
  /** Of the session, now. In `plan` only calls that change nothing are judged at all. */
  readonly mode: SessionMode;
  readonly canAsk: boolean;
}

/**
 * Whether a call may run; `pass` leaves it to whoever is asked next. The reason of a `deny` is told to the model, that of
 * an `ask` to the person.
 */
export interface Permission {
  readonly action: "allow" | "deny" | "ask" | "pass";
  readonly reason?: string;
}

/** Judges what a model wants to do, before it is done. */
export interface PermissionPolicy {
  readonly name: string;
  /**
   * Asked once for each call, before it is shown to anyone. `ask` puts it to the person at the client, unless that person allowed it for good before;
   * where nobody can be asked the call does not run. A throw, and an answer that is none of the four, denies; an answer
   * that comes after the run was cancelled is not waited for.
   */
  judge(request: PermissionRequest, signal: AbortSignal): Permission | Promise<Permission>;
}

/** Whether calls that it fits may run. Of several the first that fits decides. */
export interface PermissionRule {
  /** Name of a tool, or a glob for names. */
  readonly tool: string;
  /** Of commands: their words, each a glob; a `*` alone, and one at the end, stand for any number of words. */
  readonly match?: string | undefined;
  /** Glob for the paths that a call names: from the project folder, or from `/` or `~/`. */
  readonly path?: string | undefined;
  readonly action: "allow" | "ask" | "deny";
  /** Told to the model of a `deny`, to the person of an `ask`. */
  readonly reason?: string | undefined;
}
