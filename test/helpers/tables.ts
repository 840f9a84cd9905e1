import { DocumentMap } from "gantry/plugin";
import type { Ask, Message, RunRecord, Session } from "gantry";
import type { ChainData, DocumentChange, Instruction, Lease, Snapshot } from "gantry/plugin";
import { SessionExistsError } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { keys } from "../../src/sessions/documents/keys.js";

interface Head {
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
 * Documents in memory with table-like access, for drivers that break their contract. Values that it returns are the
 * store's own objects.
 */
export class Tables extends MemoryDocuments {
  readonly #map = new DocumentMap();
  readonly #chains = new Map<string, string>();
  #version = 0;

  override async get(requestedKeys: readonly string[]) {
    return requestedKeys.map((key) => this.#map.get(key));
  }

  override async scan(prefixes: readonly string[]) {
    return this.#map.scan(prefixes);
  }

  override async compareAndSet(changes: readonly DocumentChange[]): Promise<boolean> {
    for (const { key, version } of changes)
      if (version !== undefined && (this.#map.get(key)?.version ?? 0) !== version) return false;
    for (const { key, chain, value } of changes) if (value !== undefined) this.put(key, chain, value);
    return true;
  }

  value<T>(key: string): T | undefined {
    return this.#map.get(key)?.value as T | undefined;
  }

  /** A null value removes the document. */
  put(key: string, chain: string, value: unknown): void {
    if (value === null) {
      this.#map.delete(key);
      this.#chains.delete(key);
    } else {
      this.#map.set({ key, version: ++this.#version, value });
      this.#chains.set(key, chain);
    }
  }

  all<T>(prefix: string): T[] {
    return this.#map.scan([prefix]).map(({ value }) => value as T);
  }

  rootOf(id: string): string {
    return this.value<Session>(keys.session(id))?.chain.root ?? id;
  }

  /** Removes all documents of a chain. */
  remove(root: string): void {
    for (const [key, chain] of [...this.#chains]) if (chain === root) this.put(key, root, null);
  }

  find(id: string): Session | undefined {
    const named = this.value<{ id: string }>(keys.alias(id));
    return this.value<Session>(keys.session(id)) ?? (named && this.value<Session>(keys.session(named.id)));
  }

  checkFree({ sessions }: ChainData): void {
    for (const { session } of sessions) if (this.find(session.id)) throw new SessionExistsError(session.id);
  }

  readonly sessions = {
    get: (id: string) => {
      const session = this.value<Session>(keys.session(id));
      if (!session) return undefined;
      const { root } = session.chain;
      const chain = this.value<ChainDocument>(keys.chain(root))!;
      const firsts = this.value<number[]>(keys.segments(root)) ?? [];
      const messages = firsts.flatMap((first) => this.value<Message[]>(keys.segment(root, first)) ?? []);
      return { session, chain: { ...chain, messages } };
    },
    has: (id: string): boolean => this.value(keys.session(id)) !== undefined,
    delete: (id: string): void => this.put(keys.session(id), this.rootOf(id), null),
    values: () => this.all<Session>(keys.allSessions).map((session) => ({ session })),
  };

  readonly leases = {
    get: (root: string): Lease | undefined => this.#head(root)?.lease ?? undefined,
    set: (root: string, lease: Lease): void => this.#setHead(root, { lease }),
    delete: (root: string): void => this.#setHead(root, { lease: null }),
    values: (): Lease[] => this.all<Head>(keys.allHeads).flatMap(({ lease }) => lease ?? []),
  };

  readonly released = {
    get: (root: string): number | undefined => this.#head(root)?.released ?? undefined,
    set: (root: string, released: number): void => this.#setHead(root, { released }),
  };

  readonly runs = {
    get: (id: string): StoredRun | undefined => this.value<StoredRun>(keys.run(this.#ownerOf(keys.runId(id)), id)),
    has: (id: string): boolean => this.runs.get(id) !== undefined,
    set: (id: string, stored: StoredRun): void => {
      const root = stored.run.sessionId;
      this.put(keys.run(root, id), root, stored);
      this.put(keys.runId(id), root, { root });
      if (stored.run.idempotencyKey !== "") this.put(keys.runKey(stored.run.idempotencyKey), root, { root, run: id });
    },
    delete: (id: string): void => {
      const stored = this.runs.get(id);
      if (!stored) return;
      const { sessionId: root, idempotencyKey: key } = stored.run;
      for (const gone of [keys.run(root, id), keys.runId(id), ...(key === "" ? [] : [keys.runKey(key)])])
        this.put(gone, root, null);
    },
    values: (): StoredRun[] => this.all<StoredRun>(keys.allRuns),
    withKey: (key: string): unknown => this.value(keys.runKey(key)),
  };

  readonly asks = {
    get: (id: string): Ask | undefined => this.value<Ask>(keys.ask(this.#ownerOf(keys.askId(id)), id)),
    set: (id: string, ask: Ask): void => {
      this.put(keys.ask(ask.sessionId, id), ask.sessionId, ask);
      this.put(keys.askId(id), ask.sessionId, { root: ask.sessionId });
    },
  };

  /** Instructions of one chain, that of the session `a`. */
  readonly instructions = {
    values: (): readonly Instruction[] => this.#head("a")?.instructions ?? [],
    has: (id: string): boolean => this.instructions.values().some((instruction) => instruction.id === id),
    replace: (instructions: readonly Instruction[]): void => {
      for (const { id, sessionId: root } of instructions) this.put(keys.instructionId(id), root, { root });
      this.#setHead("a", { instructions });
    },
  };

  get fence(): number {
    return this.value<number>(keys.fence) ?? 0;
  }

  set fence(fence: number) {
    this.put(keys.fence, "", fence);
  }

  #ownerOf(key: string): string {
    return this.value<{ root: string }>(key)?.root ?? "";
  }

  #head(root: string): Head | undefined {
    return this.value<Head>(keys.head(root));
  }

  #setHead(root: string, fields: Partial<Head>): void {
    this.put(keys.head(root), root, {
      lease: null,
      released: null,
      open: [],
      instructions: [],
      ...this.#head(root),
      ...fields,
    });
  }
}
