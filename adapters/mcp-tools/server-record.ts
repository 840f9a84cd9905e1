import type { LoginFile } from "./login-file.js";
import type { Listing } from "./listing.js";
import { matchesGlob } from "./names.js";

/** State of a server in this process, over all sessions and folders that use it. */
export interface ServerState {
  /** `idle`: no session uses the server now. `needs_login`: the server required a login since the last login. */
  readonly state: "idle" | "connected" | "needs_login" | "failed";
  /** Why the last connection failed; `""` if it has not failed. Can contain secrets. */
  readonly reason: string;
  /** Number of the offered tools. Undefined until they are listed. */
  readonly toolCount: number | undefined;
  readonly hasLogin: boolean;
}

/** State of a server over all sessions of this process. Outlives the sessions that use the server. */
export class ServerRecord {
  readonly #login: LoginFile | undefined;
  #connectionCount = 0;
  #reason = "";
  listing: Listing | undefined;

  /** `login`: undefined if the server is used without a login. */
  constructor(login: LoginFile | undefined) {
    this.#login = login;
  }

  recordConnection(endPromise: Promise<unknown>): void {
    this.#connectionCount += 1;
    this.recordSuccess();
    void endPromise.then(() => (this.#connectionCount -= 1));
  }

  recordSuccess(): void {
    this.#reason = "";
  }

  recordFailure(reason: string): void {
    this.#reason = reason;
  }

  /** Whether the server requires a login. False again after a person has logged in, in any process. */
  async isLoginRequired(): Promise<boolean> {
    return (await this.#login?.isRefused()) === true;
  }

  /** `toolGlobs`: the tools that gantry offers. */
  async state(toolGlobs: readonly string[] = ["*"]): Promise<ServerState> {
    const hasLogin = (await this.#login?.read()) !== undefined;
    const toolCount = this.listing?.tools.filter(({ name }) =>
      toolGlobs.some((glob) => matchesGlob(glob, name)),
    ).length;
    const state = this.#connectionCount > 0 ? "connected" : this.#reason === "" ? "idle" : "failed";
    return { state: (await this.isLoginRequired()) ? "needs_login" : state, reason: this.#reason, toolCount, hasLogin };
  }
}
