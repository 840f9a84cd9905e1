import type { SessionMode } from "./session.js";
import type { ToolCall } from "./tool.js";

/** A call to judge, and whether a person can be asked about it. */
export interface PermissionRequest extends ToolCall {
  /** The session's current mode. In mode `plan` the policy sees only calls that change nothing. */
  readonly mode: SessionMode;
  readonly canAsk: boolean;
}

/**
 * Whether a call may run. `pass` leaves the decision to the next check. The model gets the reason of a `deny`; the
 * person gets the reason of an `ask`.
 */
export interface Permission {
  readonly action: "allow" | "deny" | "ask" | "pass";
  readonly reason?: string;
}

/** Decides on tool calls before they run. */
export interface PermissionPolicy {
  readonly name: string;
  /**
   * Called once per call, before any client sees the call.
   *
   * - `ask` requests a decision from the person, unless a stored grant allows the call. Without a client that can ask,
   *   the call is denied.
   * - A throw or an invalid result denies the call.
   * - After the run is cancelled, the result is not awaited.
   */
  judge(request: PermissionRequest, signal: AbortSignal): Permission | Promise<Permission>;
}

/** A decision for matching calls. The first matching rule of a list applies. */
export interface PermissionRule {
  /** Name of a tool, or a glob for names. */
  readonly tool: string;
  /** For commands: their words, each as a glob. A `*` alone or at the end matches any number of words. */
  readonly match?: string | undefined;
  /** Glob for the paths of a call, relative to the project folder or starting with `/` or `~/`. */
  readonly path?: string | undefined;
  readonly action: "allow" | "ask" | "deny";
  /** Shown to the model for `deny`, to the person for `ask`. */
  readonly reason?: string | undefined;
}
