import { monotonicMs } from "../base/clock.js";
import { AskNotFoundError, ForbiddenError, RunNotFoundError } from "../ports/errors.js";
import type { Ask } from "../ports/ask.js";
import type { Session } from "../ports/session.js";
import type { WatchOptions } from "../ports/watch.js";
import type { Asks } from "../run/permissions/asks.js";
import type { Runs } from "../run/queue/runs.js";
import type { Sessions } from "../sessions/sessions.js";
import { isVisibleTo } from "../sessions/visible-to.js";
import type { UserAccess } from "./user-access.js";

const READING_SESSION_METHODS = new Set<PropertyKey>([
  ...["get", "list", "search", "messages", "watch", "isRunning", "context", "snapshots", "changes", "worktree"],
]);
const READING_RUN_METHODS = new Set<PropertyKey>(["get", "list", "ended", "started", "findInterruptedRun"]);
const READING_ASK_METHODS = new Set<PropertyKey>(["get", "list", "answer"]);
/** Minimum interval between checks whether a watched session of another user is still shared, in ms. */
const SHARE_CHECK_INTERVAL_MS = 500;

type Method = (...args: unknown[]) => unknown;
type Methods<T> = { [Name in keyof T]?: T[Name] };

/**
 * The agent's sessions for a user. `projectDir`: default folder of new sessions. `onVisible`: called with the first session
 * of a watched chain.
 */
export function restrictSessions(
  sessions: Sessions,
  access: UserAccess,
  projectDir: string,
  onVisible: (root: Session) => void,
): Sessions {
  const { name } = access.user;
  const requireOwner = async (id: string): Promise<Session> => {
    const root = await access.requireVisible(id);
    if (!access.isOwner(root)) throw new ForbiddenError("only the owner of the session may do this");
    return root;
  };
  const ownMethods: Methods<Sessions> = {
    get: async (id) => ((await access.findVisible(id)) ? sessions.get(id) : undefined),
    list: async (query = {}) => {
      if (query.spawnedBy !== undefined && !(await access.findVisible(query.spawnedBy)))
        return { sessions: [], total: 0 };
      return sessions.list({ ...query, ...access.filter });
    },
    search: async (query) => sessions.search({ ...query, ...access.filter }),
    create: async (input = {}) => {
      const folder = input.projectDir ?? projectDir;
      await access.checkFolders(folder);
      return sessions.create({ ...input, projectDir: folder, owner: name });
    },
    fork: async (id, messageId) => {
      await access.requireVisible(id);
      return sessions.fork(id, messageId, { owner: name });
    },
    update: async (id, fields) => {
      const root = await (fields.shared === undefined ? access.requireVisible(id) : requireOwner(id));
      if (fields.mode !== undefined) access.checkMode(fields.mode, root.mode);
      return sessions.update(id, fields);
    },
    delete: async (id) => {
      await requireOwner(id);
      return sessions.delete(id);
    },
    runCommand: async (id, command) => {
      access.require("approve");
      await access.checkFolders((await access.requireVisible(id)).projectDir);
      return sessions.runCommand(id, command);
    },
  };
  const watch = (id: string, options?: WatchOptions) => watchVisible(sessions, access, onVisible, id, options);
  return new Proxy(
    restrict(sessions, access, READING_SESSION_METHODS, ownMethods, (id) => access.requireVisible(id)),
    {
      // A watch is no promise: a missing scope is reported with its first event.
      get: (target, member): unknown => (member === "watch" ? watch : Reflect.get(target, member)),
    },
  );
}

async function* watchVisible(
  sessions: Sessions,
  access: UserAccess,
  onVisible: (root: Session) => void,
  id: string,
  options: WatchOptions = {},
): ReturnType<Sessions["watch"]> {
  access.require("read");
  const root = await access.requireVisible(id);
  onVisible(root);
  let checkedMs = monotonicMs();
  // `true` would count for the asks of all sessions.
  const canAnswer = access.has("approve") && (options.canAnswer === true ? () => true : options.canAnswer);
  for await (const event of sessions.watch(id, { ...options, canAnswer })) {
    // The owner may have stopped sharing the session. The state reports it at once, but follows all stored messages, which
    // a slow reader may read for a long time.
    if (event.type === "state" && !isVisibleTo(event.state.session, access.filter.visibleTo)) return;
    if (!access.isOwner(root) && monotonicMs() - checkedMs >= SHARE_CHECK_INTERVAL_MS) {
      if (!(await access.findVisible(id))) return;
      checkedMs = monotonicMs();
    }
    yield event;
  }
}

/** The agent's runs for a user. */
export function restrictRuns(runs: Runs, access: UserAccess): Runs {
  const find = async (id: string) => {
    const run = await runs.get(id);
    return run && (await access.findVisible(run.sessionId)) ? run : undefined;
  };
  const ownMethods: Methods<Runs> = {
    get: find,
    list: async (query = {}) => {
      if (query.sessionId !== undefined) await access.requireVisible(query.sessionId);
      const { idempotencyKey } = query;
      return runs.list({
        ...query,
        ...(idempotencyKey !== undefined && { idempotencyKey: access.toStoredKey(idempotencyKey) }),
        ...access.filter,
      });
    },
    findInterruptedRun: async (key) => runs.findInterruptedRun(access.toStoredKey(key)),
    freeKey: async (key) => runs.freeKey(access.toStoredKey(key)),
  };
  return restrict(runs, access, READING_RUN_METHODS, ownMethods, async (id) => {
    if (!(await find(id))) throw new RunNotFoundError(id);
  });
}

/** The agent's asks for a user. */
export function restrictAsks(asks: Asks, access: UserAccess): Asks {
  const find = async (id: string): Promise<Ask | undefined> => {
    const ask = await asks.get(id);
    return ask && (await access.findVisible(ask.sessionId)) ? ask : undefined;
  };
  const ownMethods: Methods<Asks> = {
    get: find,
    list: async (query = {}) => {
      if (query.sessionId !== undefined) await access.requireVisible(query.sessionId);
      return asks.list({ ...query, ...access.filter });
    },
    answer: async (id, reply) => {
      const ask = await find(id);
      access.require(ask?.kind === "permission" ? "approve" : "run");
      if (!ask) throw new AskNotFoundError(id);
      return asks.answer(id, reply, access.user.name);
    },
  };
  return restrict(asks, access, READING_ASK_METHODS, ownMethods, (id) => {
    throw new AskNotFoundError(id);
  });
}

/**
 * Returns `target` for a user. `checkId` checks the first argument, an id, of each method that is not in `ownMethods`.
 * Methods that are not in `reading` require the scope `run`.
 */
function restrict<T extends object>(
  target: T,
  access: UserAccess,
  reading: ReadonlySet<PropertyKey>,
  ownMethods: Methods<T>,
  checkId: (id: string) => unknown,
): T {
  return new Proxy(target, {
    get: (_, name): unknown => {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== "function") return undefined;
      const ownMethod = Object.hasOwn(ownMethods, name) ? (ownMethods[name as keyof T] as Method) : undefined;
      return async (id: unknown, ...otherArgs: unknown[]) => {
        access.require(reading.has(name) ? "read" : "run");
        if (ownMethod) return ownMethod(id, ...otherArgs);
        await checkId(id as string);
        return Reflect.apply(method, target, [id, ...otherArgs]) as unknown;
      };
    },
  });
}
