import type { Listening, Transport } from "../../plugin/transport.js";

/** A client that speaks the transport's protocol, in as few lines as it takes. */
export interface TransportClient {
  /**
   * Ask, in a new session or in the one named. Resolves with the whole answer and the id under which clients resume
   * the session; rejects when the agent failed, refused or went away. `onText` is told each piece of the answer as it
   * arrives. May be called again when it has settled.
   */
  prompt(
    text: string,
    options?: { sessionId?: string; onText?: (text: string) => void },
  ): Promise<{ text: string; sessionId: string }>;
  /** Leave, also in mid-answer; a prompt under way settles. Safe to call twice, also when the other side is gone. */
  close(): Promise<void>;
}

/** How the checks get at a transport. Every function may take its time. */
export interface TransportFixture {
  /** A transport that was never started, on a place of its own (port 0, say). Called once at the start of every check. */
  create(): Promise<Transport>;
  /** A transport that cannot start, because its place is taken, say. `undefined` where a start has nothing that can fail. */
  readonly unable: (() => Promise<Transport>) | undefined;
  /** A new client on what listens. Where there is but one client (stdio), each call is a session of its own on it. Rejects when nobody listens. */
  connect(listening: Listening): Promise<TransportClient>;
  /** What becomes of a run whose client leaves. */
  readonly onLeave: "cancel" | "continue";
  /** Remove what `create` and `unable` left behind. Called at the end of every check, when clients are closed and the transport was stopped. */
  clean(): Promise<void>;
  /** How long the checks wait for what must happen, in ms. Default 10,000: no check passes by waiting that long. */
  readonly timeoutMs?: number | undefined;
}
