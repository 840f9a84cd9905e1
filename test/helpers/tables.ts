import { DocumentMap } from "gantry/plugin";
import type { Ask, Message, RunRecord, Session } from "gantry";
import type { ChainData, DocumentChange, Instruction, Lease, Snapshot } from "gantry/plugin";
import { SessionExistsError } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { keys } from "../../src/sessions/documents/keys.js";

interface HeadDocument {
  lease: Lease | null;
  released: number | null;
  instructions: readonly Instruction[];
}

interface ChainDocument {
  snapshots: Snapshot[];
  growing: { id: string; pieces: number }[];
}

interface StoredRun {
  run: RunRecord;
  fence: number | null;
}

/**
 * Documents in memory with table-like access, for drivers that break their contract. Returned values are the store's
 * own objects.
 */
export class Tables extends MemoryDocuments {
  readonly #documents = new DocumentMap();
  readonly #chainsByKey = new Map<string, string>();
  #version = 0;

  override async get(requestedKeys: readonly string[]) {
    return requestedKeys.map((key) => this.#documents.get(key));
  }

  override async scan(prefixes: readonly string[]) {
    return this.#documents.scan(prefixes);
  }

  override async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    for (const { key, version } of changes)
      if (version !== undefined && (this.#documents.get(key)?.version ?? 0) !== version) return false;
    for (const { key, chain, value } of changes) if (value !== undefined) this.put(key, chain, value);
    return true;
  }

  getValue<T>(key: string): T | undefined {
    return this.#documents.get(key)?.value as T | undefined;
  }

  /** A null value removes the document. */
  put(key: string, chain: string, value: unknown): void {
    if (value === null) {
      this.#documents.delete(key);
      this.#chainsByKey.delete(key);
    } else {
      this.#documents.set({ key, version: ++this.#version, value });
      this.#chainsByKey.set(key, chain);
    }
  }

  listValues<T>(prefix: string): T[] {
    return this.#documents.scan([prefix]).map(({ value }) => value as T);
  }

  rootOf(id: string): string {
    return this.getValue<Session>(keys.session(id))?.chain.root ?? id;
  }

  /** Removes all documents of a chain. */
  removeChain(root: string): void {
    for (const [key, chain] of [...this.#chainsByKey]) if (chain === root) this.put(key, root, null);
  }

  findSession(id: string): Session | undefined {
    const alias = this.getValue<{ id: string }>(keys.alias(id));
    return this.getValue<Session>(keys.session(id)) ?? (alias && this.getValue<Session>(keys.session(alias.id)));
  }

  checkFree({ sessions }: ChainData): void {
    for (const { session } of sessions) if (this.findSession(session.id)) throw new SessionExistsError(session.id);
  }

  readonly sessions = {
    get: (id: string) => {
      const session = this.getValue<Session>(keys.session(id));
      if (!session) return undefined;
      const { root } = session.chain;
      const chain = this.getValue<ChainDocument>(keys.chain(root))!;
      const segmentStarts = this.getValue<number[]>(keys.segments(root)) ?? [];
      const messages = segmentStarts.flatMap(
        (firstSeq) => this.getValue<Message[]>(keys.segment(root, firstSeq)) ?? [],
      );
      return { session, chain: { ...chain, messages } };
    },
    has: (id: string): boolean => this.getValue(keys.session(id)) !== undefined,
    delete: (id: string): void => this.put(keys.session(id), this.rootOf(id), null),
    values: () => this.listValues<Session>(keys.allSessions).map((session) => ({ session })),
  };

  readonly leases = {
    get: (root: string): Lease | undefined => this.#getHead(root)?.lease ?? undefined,
    set: (root: string, lease: Lease): void => this.#setHead(root, { lease }),
    delete: (root: string): void => this.#setHead(root, { lease: null }),
    values: (): Lease[] => this.listValues<HeadDocument>(keys.allHeads).flatMap(({ lease }) => lease ?? []),
  };

  readonly released = {
    get: (root: string): number | undefined => this.#getHead(root)?.released ?? undefined,
    set: (root: string, released: number): void => this.#setHead(root, { released }),
  };

  readonly runs = {
    get: (id: string): StoredRun | undefined => this.getValue<StoredRun>(keys.run(this.#findRoot(keys.runId(id)), id)),
    has: (id: string): boolean => this.runs.get(id) !== undefined,
    set: (id: string, storedRun: StoredRun): void => {
      const root = storedRun.run.sessionId;
      this.put(keys.run(root, id), root, storedRun);
      this.put(keys.runId(id), root, { root });
      if (storedRun.run.idempotencyKey !== "")
        this.put(keys.runKey(storedRun.run.idempotencyKey), root, { root, run: id });
    },
    delete: (id: string): void => {
      const storedRun = this.runs.get(id);
      if (!storedRun) return;
      const { sessionId: root, idempotencyKey: key } = storedRun.run;
      for (const removedKey of [keys.run(root, id), keys.runId(id), ...(key === "" ? [] : [keys.runKey(key)])])
        this.put(removedKey, root, null);
    },
    values: (): StoredRun[] => this.listValues<StoredRun>(keys.allRuns),
    withKey: (key: string): unknown => this.getValue(keys.runKey(key)),
  };

  readonly asks = {
    get: (id: string): Ask | undefined => this.getValue<Ask>(keys.ask(this.#findRoot(keys.askId(id)), id)),
    set: (id: string, ask: Ask): void => {
      this.put(keys.ask(ask.sessionId, id), ask.sessionId, ask);
      this.put(keys.askId(id), ask.sessionId, { root: ask.sessionId });
    },
  };

  /** Instructions of the chain of session `a`. */
  readonly instructions = {
    values: (): readonly Instruction[] => this.#getHead("a")?.instructions ?? [],
    has: (id: string): boolean => this.instructions.values().some((instruction) => instruction.id === id),
    replace: (instructions: readonly Instruction[]): void => {
      for (const { id, sessionId: root } of instructions) this.put(keys.instructionId(id), root, { root });
      this.#setHead("a", { instructions });
    },
  };

  get fence(): number {
    return this.getValue<number>(keys.fence) ?? 0;
  }

  set fence(fence: number) {
    this.put(keys.fence, "", fence);
  }

  #findRoot(key: string): string {
    return this.getValue<{ root: string }>(key)?.root ?? "";
  }

  #getHead(root: string): HeadDocument | undefined {
    return this.getValue<HeadDocument>(keys.head(root));
  }

  #setHead(root: string, fields: Partial<HeadDocument>): void {
    this.put(keys.head(root), root, {
      lease: null,
      released: null,
      open: [],
      instructions: [],
      ...this.#getHead(root),
      ...fields,
    });
  }
}
