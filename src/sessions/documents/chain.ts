import { LeaseLostError } from "../../ports/errors.js";
import type { Instruction } from "../../ports/run.js";
import type { Session, Snapshot } from "../../ports/session.js";
import type { Lease } from "../../ports/session-driver.js";
import { keys } from "./keys.js";
import type { Transaction } from "./transaction.js";

/**
 * A small document, written with every change of its chain. The version of this document detects conflicts. A lease can
 * create it before the chain exists.
 */
export interface Head {
  lease: Lease | null;
  /**
   * Fence of the last lease if no holder has one. Null if unknown, for instance after a change of messages without a
   * lease.
   */
  released: number | null;
  /** Ids of the runs stored as `queued`, `running` or `waiting`. */
  open: readonly string[];
  /** In the order of arrival. */
  instructions: readonly Instruction[];
}

/** Position of a session in its chain. */
export interface Link {
  id: string;
  index: number;
  /** Snapshot that hides the session; `""` for none. */
  cut: string;
  /** Smallest `seq` of the session's messages; 0 without messages. */
  first: number;
}

/** Messages hidden by a snapshot, as inclusive ranges of `seq`. */
export interface HiddenMessages {
  id: string;
  ranges: readonly (readonly [from: number, to: number])[];
}

/** A message that may grow. `pieces`: number of documents with text appended to the message. */
export interface GrowingMessage {
  id: string;
  seq: number;
  pieces: number;
}

/** The structure of a chain. Grows with follow-ups and reverts, but not with messages and runs. */
export interface ChainDocument {
  links: readonly Link[];
  snapshots: readonly Snapshot[];
  hidden: readonly HiddenMessages[];
  growing: readonly GrowingMessage[];
}

/**
 * Smallest `seq` of each segment, ascending. This `seq` names the segment, so the list changes only with a new segment.
 */
export type SegmentList = readonly number[];

const NEW_HEAD: Head = { lease: null, released: null, open: [], instructions: [] };

/** Returns the value of a document; removes the lease from a head. For chains that no process can hold. */
export function withoutLease(key: string, value: unknown): unknown {
  return key.startsWith(keys.allHeads) ? { ...(value as Head), lease: null, released: null } : value;
}

/** The documents of a chain that most calls need. `save` writes the changes. */
export class Chain {
  readonly #storedState: { head: Head | undefined; document: ChainDocument | undefined; segments: SegmentList };
  head: Head;
  /** Undefined before the chain's original is created. */
  document: ChainDocument | undefined;
  segments: SegmentList;

  private constructor(
    readonly tx: Transaction,
    readonly root: string,
    [head, document, segments = []]: [Head?, ChainDocument?, SegmentList?],
  ) {
    this.#storedState = { head, document, segments };
    this.head = head ?? NEW_HEAD;
    this.document = document;
    this.segments = segments;
  }

  /** Opens a chain by the id of its original, which may not exist yet. */
  static async open(tx: Transaction, root: string): Promise<Chain> {
    const documents = await tx.getAll([keys.head(root), keys.chain(root), keys.segments(root)]);
    return new Chain(tx, root, documents as [Head?, ChainDocument?, SegmentList?]);
  }

  /** Opens the chain of a session; undefined for an unknown session. */
  static async findBySession(tx: Transaction, sessionId: string): Promise<Chain | undefined> {
    const session = await tx.get<Session>(keys.session(sessionId));
    const chain = session && (await Chain.open(tx, session.chain.root));
    return chain?.document && chain;
  }

  /** The document of a chain whose original exists. Throws otherwise. */
  get content(): ChainDocument {
    if (!this.document) throw new Error(`the chain of ${this.root} has no document`);
    return this.document;
  }

  /** The session with the greatest index that no revert hides; undefined before the original is created. */
  get newest(): Link | undefined {
    let newest: Link | undefined;
    for (const link of this.document?.links ?? [])
      if (link.cut === "" && link.index >= (newest?.index ?? 0)) newest = link;
    return newest;
  }

  /** Throws `LeaseLostError` unless `fence` is null or belongs to the chain's lease. */
  checkFence(fence: number | null): void {
    if (fence !== null && this.head.lease?.fence !== fence) throw new LeaseLostError(this.root);
  }

  /** Releases the lease. Returns false if `fence` is not the current one. */
  release(fence: number): boolean {
    if (this.head.lease?.fence !== fence) return false;
    this.head = { ...this.head, lease: null, released: fence };
    return true;
  }

  /** Whether the head, the chain's document or the segment list has changed. */
  get isChanged(): boolean {
    const { head = NEW_HEAD, document, segments } = this.#storedState;
    return this.head !== head || this.document !== document || this.segments !== segments;
  }

  /** Writes the changes. The head is always written too, so that other processes detect every change of the chain. */
  save(): void {
    const { tx, root } = this;
    if (this.document) tx.set(keys.head(root), root, this.head);
    // A lease taken before its chain is created belongs to no chain yet.
    else if (this.head.lease) tx.set(keys.head(root), "", this.head);
    else tx.delete(keys.head(root), "");
    if (this.document !== this.#storedState.document) tx.set(keys.chain(root), root, this.document);
    if (this.segments !== this.#storedState.segments) tx.set(keys.segments(root), root, this.segments);
  }
}
