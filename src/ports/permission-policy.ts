import type { SessionMode } from "./session.js";
import type { ToolCall } from "./tool.js";

/** A call, and whether a person can be asked about it. */
export interface PermissionRequest extends ToolCall {
  /** Of the session, now. In `plan` only calls that change nothing are judged at all. */
  readonly mode: SessionMode;
  readonly canAsk: boolean;
}

/** Whether a call may run. The reason of a `deny` is told to the model, that of an `ask` to the person. */
export interface Permission {
  readonly action: "allow" | "deny" | "ask";
  readonly reason?: string;
}

/** Judges what a model wants to do, before it is done. */
export interface PermissionPolicy {
  readonly name: string;
  /**
   * Asked once for each call, before it is shown to anyone. `ask` puts it to the person at the client, unless that person allowed it for good before;
   * where nobody can be asked the call does not run. A throw, and an answer that is none of the three, denies; an answer
   * that comes after the run was cancelled is not waited for.
   */
  judge(request: PermissionRequest, signal: AbortSignal): Permission | Promise<Permission>;
}
