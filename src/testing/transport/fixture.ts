import type { Listening, Transport } from "../../plugin/transport.js";

/** A minimal client of the transport's protocol. */
export interface TransportClient {
  /**
   * Sends a prompt, in the given session or a new one. Resolves with the full answer and the id under which clients
   * resume the session. Rejects if the agent fails, rejects the prompt or disconnects.
   *
   * `onText` receives each piece of the answer. `prompt` can be called again after it has settled.
   */
  prompt(
    text: string,
    options?: { sessionId?: string; onText?: (text: string) => void },
  ): Promise<{ text: string; sessionId: string }>;
  /**
   * Disconnects, also in mid-answer. An active prompt settles. Safe to call twice, also after the server has
   * disconnected.
   */
  close(): Promise<void>;
}

/** Gives the checks access to a transport. The functions can take any time. */
export interface TransportFixture {
  /**
   * Creates a transport that was never started, with a separate address, such as port 0. Called once at the start of
   * every check.
   */
  create(): Promise<Transport>;
  /**
   * Creates a transport whose start fails, for example because its port is taken. Undefined if the start cannot fail.
   */
  readonly createFailing: (() => Promise<Transport>) | undefined;
  /**
   * Connects a new client. If the transport has a single client (stdio), each call opens a separate session of that
   * client. Rejects if the transport is not serving.
   */
  connect(listening: Listening): Promise<TransportClient>;
  /** Effect on a run when its client disconnects. */
  readonly onDisconnect: "cancel" | "continue";
  /**
   * Removes what `create` and `createFailing` left. Called at the end of every check, after clients were closed and the
   * transport was stopped.
   */
  clean(): Promise<void>;
  /** Time limit of the checks for expected events, in ms. Default 10,000. Only failing checks take that long. */
  readonly timeoutMs?: number | undefined;
}
