import { LeaseLostError } from "../../ports/errors.js";
import type { Instruction } from "../../ports/run.js";
import type { Session, Snapshot } from "../../ports/session.js";
import type { Lease } from "../../ports/session-driver.js";
import { keys } from "./keys.js";
import type { Transaction } from "./transaction.js";

/** Small, and written with every change of its chain: the commit of that change. It may be there before its chain. */
export interface Head {
  lease: Lease | null;
  /** Fence of the last lease if nobody holds one; null if unknown, as after a change of messages without a lease. */
  released: number | null;
  /** Ids of the runs that are stored as queued, running or waiting. */
  open: readonly string[];
  /** In the order in which they came. */
  instructions: readonly Instruction[];
}

/** A session's place in its chain. */
export interface Link {
  id: string;
  index: number;
  /** Snapshot that hides it; `""` for none. */
  cut: string;
  /** Smallest `seq` of its messages; 0 without messages. */
  first: number;
}

/** Messages that a snapshot hides: ranges of `seq`, both ends included. */
export interface Hidden {
  id: string;
  ranges: readonly (readonly [from: number, to: number])[];
}

/** A message that may grow, in the segment of its `seq`. The text that it gained is in so many pieces. */
export interface Growing {
  id: string;
  seq: number;
  pieces: number;
}

/** Grows with follow-ups and reverts, not with messages and runs. */
export interface ChainDocument {
  links: readonly Link[];
  snapshots: readonly Snapshot[];
  hidden: readonly Hidden[];
  growing: readonly Growing[];
}

/** Smallest `seq` of each segment, ascending: segments are named by it, so it changes with a new segment only. */
export type SegmentList = readonly number[];

const NEW_HEAD: Head = { lease: null, released: null, open: [], instructions: [] };

/** A document of a chain, or what it is once it is sure that nobody has a lease of the chain. */
export function withoutLease(key: string, value: unknown): unknown {
  return key.startsWith(keys.allHeads) ? { ...(value as Head), lease: null, released: null } : value;
}

/** The documents of a chain that most work needs. Changes are written when `save` is called. */
export class Chain {
  readonly #saved: { head: Head | undefined; document: ChainDocument | undefined; segments: SegmentList };
  head: Head;
  /** Undefined before the chain's original is created. */
  document: ChainDocument | undefined;
  segments: SegmentList;

  private constructor(
    readonly tx: Transaction,
    readonly root: string,
    [head, document, segments = []]: [Head?, ChainDocument?, SegmentList?],
  ) {
    this.#saved = { head, document, segments };
    this.head = head ?? NEW_HEAD;
    this.document = document;
    this.segments = segments;
  }

  static async open(tx: Transaction, root: string): Promise<Chain> {
    const found = await tx.getAll([keys.head(root), keys.chain(root), keys.segments(root)]);
    return new Chain(tx, root, found as [Head?, ChainDocument?, SegmentList?]);
  }

  /** The chain of a session; undefined for an unknown one. */
  static async of(tx: Transaction, sessionId: string): Promise<Chain | undefined> {
    const session = await tx.get<Session>(keys.session(sessionId));
    const chain = session && (await Chain.open(tx, session.chain.root));
    return chain?.document && chain;
  }

  /** The document of a chain that exists. */
  get content(): ChainDocument {
    if (!this.document) throw new Error(`the chain of ${this.root} has no document`);
    return this.document;
  }

  /** The session with the greatest index that no cut hides. */
  get newest(): Link | undefined {
    let newest: Link | undefined;
    for (const link of this.document?.links ?? [])
      if (link.cut === "" && link.index >= (newest?.index ?? 0)) newest = link;
    return newest;
  }

  /** Throws `LeaseLostError` unless the fence is that of the chain's lease. */
  checkFence(fence: number | null): void {
    if (fence !== null && this.head.lease?.fence !== fence) throw new LeaseLostError(this.root);
  }

  /** False if the lease was not held. */
  release(fence: number): boolean {
    if (this.head.lease?.fence !== fence) return false;
    this.head = { ...this.head, lease: null, released: fence };
    return true;
  }

  /** Whether the head or the chain's document have changed. */
  get isChanged(): boolean {
    const { head = NEW_HEAD, document, segments } = this.#saved;
    return this.head !== head || this.document !== document || this.segments !== segments;
  }

  /** Writes what changed. The head is written with it, so that no change of the chain passes unnoticed. */
  save(): void {
    const { tx, root } = this;
    if (this.document) tx.set(keys.head(root), root, this.head);
    // A lease that is taken before its chain is created belongs to no chain yet.
    else if (this.head.lease) tx.set(keys.head(root), "", this.head);
    else tx.delete(keys.head(root), "");
    if (this.document !== this.#saved.document) tx.set(keys.chain(root), root, this.document);
    if (this.segments !== this.#saved.segments) tx.set(keys.segments(root), root, this.segments);
  }
}
