import { resolve } from "node:path";
import { RunNotFoundError } from "../ports/errors.js";
import type { ChangedFiles, FileHistory } from "../ports/file-history.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { requireSession } from "./require-session.js";
import { listSubagentSessionIds } from "./subagents.js";

/** Selects changed files. */
export interface ChangedFilesQuery {
  /**
   * Only files that this run and its subagents changed, with their content after the run. Default: all runs, with the
   * current content.
   */
  runId?: string | undefined;
  /** Only this file; absolute, or relative to the session's folder. */
  path?: string | undefined;
  /** Number of files to skip; default 0. */
  offset?: number | undefined;
  /** Default 100. */
  limit?: number | undefined;
}

const PAGE_SIZE = 100;
const RUN_PAGE_SIZE = 100;

/** Lists the files that a session changed. Rejects with `SessionNotFoundError` or `RunNotFoundError`. */
export async function listChangedFiles(
  store: SessionDriver,
  id: string,
  { runId, path, offset = 0, limit = PAGE_SIZE }: ChangedFilesQuery,
  history: FileHistory | undefined,
): Promise<ChangedFiles> {
  const session = await requireSession(store, id);
  const runs = new SubagentRuns(store, session);
  const runIds = runId === undefined ? undefined : await runs.requireRun(runId);
  const changes = await history?.changes?.({
    ...{ sessionId: session.chain.root, projectDir: session.projectDir, runIds, offset, limit },
    path: path === undefined ? undefined : resolve(session.projectDir, path),
  });
  if (!changes) return { files: [], total: 0 };
  const parentRunIds = await runs.findParentRuns();
  const files = changes.files.map((file) => ({
    ...file,
    runIds: [...new Set(file.runIds.map((subagentRunId) => parentRunIds.get(subagentRunId) ?? subagentRunId))],
  }));
  return { ...changes, files };
}

/** The runs of a session's subagents. Their changes are recorded in this session, with the ids of their own runs. */
export class SubagentRuns {
  readonly #store: SessionDriver;
  readonly #session: Session;
  #parentRunIds: Promise<ReadonlyMap<string, string>> | undefined;

  constructor(store: SessionDriver, session: Session) {
    this.#store = store;
    this.#session = session;
  }

  /** Returns a run of the session and the runs of its subagents. Rejects with `RunNotFoundError`. */
  async requireRun(runId: string): Promise<ReadonlySet<string>> {
    const [storedRun] = await this.#store.runs({ id: runId, limit: 1 });
    if (storedRun?.run.sessionId !== this.#session.chain.root) throw new RunNotFoundError(runId);
    const parentRunIds = await this.findParentRuns();
    return new Set([runId, ...[...parentRunIds].flatMap(([id, parentId]) => (parentId === runId ? [id] : []))]);
  }

  /** Returns the session's own run for each run of a subagent, also of a nested one. */
  findParentRuns(): Promise<ReadonlyMap<string, string>> {
    return (this.#parentRunIds ??= this.#loadParentRuns());
  }

  async #loadParentRuns(): Promise<ReadonlyMap<string, string>> {
    const parentRunIds = new Map<string, string>();
    // Each parent precedes its subagents, so that the parent's own parent is known.
    for (const id of await listSubagentSessionIds(this.#store, this.#session.chain.root)) {
      const parentRunId = (await this.#store.get(id))?.spawnedBy?.runId;
      if (parentRunId === undefined) continue;
      for (const runId of await this.#listRunIds(id))
        parentRunIds.set(runId, parentRunIds.get(parentRunId) ?? parentRunId);
    }
    return parentRunIds;
  }

  async #listRunIds(sessionId: string): Promise<string[]> {
    const runIds: string[] = [];
    for (let before: { startedAt: string; id: string } | undefined; ;) {
      const page = await this.#store.runs({ sessionId, limit: RUN_PAGE_SIZE, ...(before && { before }) });
      runIds.push(...page.map(({ run }) => run.id));
      before = page.at(-1)?.run;
      if (page.length < RUN_PAGE_SIZE) return runIds;
    }
  }
}
