import type { Socket } from "node:net";
import type { Logger } from "../ports/logger.js";
import { OtherEnds, trustedUsers } from "./other-ends.js";

/** Whether the process at the other end of a connection is of this user; undefined while it is being found out. */
type Verdict = { trusted: boolean | undefined; known: Promise<void> };

/**
 * Tells connections of this user's processes (and root's) from those of other users of the machine, by the kernel's
 * table of sockets. Only Linux has one; elsewhere, and where the table cannot be read, everybody is trusted.
 */
export class PeerUsers {
  readonly #trusted: ReadonlySet<number>;
  readonly #logger: Logger;
  readonly #verdicts = new WeakMap<object, Verdict>();
  /** Users that were told of already. */
  readonly #told = new Set<string>();
  readonly #others = new OtherEnds();

  private constructor(trusted: ReadonlySet<number>, logger: Logger) {
    this.#trusted = trusted;
    this.#logger = logger;
  }

  /** Undefined where the system does not tell. */
  static ofThisMachine(logger: Logger): PeerUsers | undefined {
    const trusted = trustedUsers();
    return trusted && new PeerUsers(trusted, logger);
  }

  /** A new connection. */
  add(socket: Socket): void {
    const verdict: Verdict = { trusted: undefined, known: Promise.resolve() };
    verdict.known = this.#find(socket).then((trusted) => void (verdict.trusted = trusted));
    this.#verdicts.set(socket, verdict);
  }

  /** Whether its process is trusted; undefined: not known yet, ask again after `known`. */
  isTrusted(socket: object): boolean | undefined {
    return this.#verdicts.get(socket)?.trusted;
  }

  /** Resolves when it is known; never rejects. */
  known(socket: object): Promise<void> {
    return this.#verdicts.get(socket)?.known ?? Promise.resolve();
  }

  async #find(socket: Socket): Promise<boolean> {
    const uid = await this.#others.ownerOf(socket);
    if (uid === undefined) return this.#tellHidden();
    return uid !== "" && this.#judge(uid);
  }

  #judge(uid: string): boolean {
    if (this.#trusted.has(Number(uid))) return true;
    if (!this.#told.has(uid)) {
      this.#told.add(uid);
      this.#logger.warn(
        `refused a process of another user of this machine (uid ${uid}); server.required_headers would let it prove ` +
          "itself, server.allow_other_users lets everybody in",
      );
    }
    return false;
  }

  #tellHidden(): true {
    if (!this.#told.has(""))
      this.#logger.warn("whose processes connect cannot be told: the table of sockets is hidden");
    this.#told.add("");
    return true;
  }
}
