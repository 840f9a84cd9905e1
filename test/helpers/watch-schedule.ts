import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedReply } from "gantry/testing";
import type { FakePiece, FakeStep } from "./fake-model-server.js";
import { ClientWatcher } from "./client-watcher.js";
import type { ServerGroup } from "./server-group.js";
import { HttpWatcher, type CheckedPage } from "./http-watcher.js";
import { pause, waitUntil } from "./server-runs.js";
import { createRandom } from "./random.js";

/** Counts of a schedule's actions and of its watchers' events. `ServerGroupCounts` has the counts of the servers. */
export interface ScheduleCounts {
  runs: number;
  cancels: number;
  steers: number;
  reverts: number;
  restores: number;
  compactions: number;
  connections: number;
  drops: number;
  /** Number of drops within an event. */
  splitEvents: number;
  refusedCursors: number;
  events: number;
  characters: number;
  rewinds: number;
  repeatedMessages: number;
}

/** Random words; some contain an emoji that is split into its halves. */
function createWords(random: () => number, name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const kind = random();
    return kind < 0.06 ? ["\ud83d", "\ude42 "] : [`${name}${n}${kind < 0.1 ? "\u2028" : ""} `];
  }).flat();
}

/** A random answer on a wire: reasoning, text in pieces, calls. Some answers are interrupted. */
export function createRandomStep(random: () => number): FakeStep {
  const say: FakePiece[] = [];
  if (random() < 0.4) say.push({ reasoning: createWords(random, "why", 1 + random() * 8) });
  say.push({ text: createWords(random, "word", 1 + random() * 70) });
  if (random() < 0.35) say.push({ call: { name: "glob", arguments: { pattern: "*" } } });
  return {
    say,
    pace: Math.floor(random() * 6),
    ...(random() < 0.1 ? { breaks: { at: random(), by: random() < 0.5 ? ("reset" as const) : ("cut" as const) } } : {}),
  };
}

/** Random answers for the agent of this process. */
export function createRandomProvider(random: () => number): ScriptedProvider {
  const fallback = (): ScriptedReply => {
    const chunks: ScriptedChunk[] = [];
    if (random() < 0.4)
      for (const text of createWords(random, "why", 1 + random() * 8))
        chunks.push({ type: "reasoning", block: "r", text });
    for (const text of createWords(random, "word", 1 + random() * 50)) {
      chunks.push({ type: "text", block: "0", text });
      if (random() < 0.3) chunks.push(Math.floor(random() * 12));
    }
    if (random() < 0.15) return { chunks, fault: new Error("the line is dead") };
    return random() < 0.35 ? [...chunks, ...callTools(["noop", {}, `own-${random()}`])] : { chunks };
  };
  return new ScriptedProvider([], { name: "lab", models: [{ id: "m1", name: "m1", ownedBy: "lab" }], fallback });
}

/**
 * Runs a random schedule on one session: runs of this process and of servers, cancels, steering, reverts and restores.
 * Servers are killed or stopped, a disk loses writes, and connections of watchers drop. Resolves when each watcher has
 * the stored messages. Throws if a watcher does not get them, or has received a message twice.
 */
export async function runSchedule(group: ServerGroup, seed: number, steps: number): Promise<ScheduleCounts> {
  const random = createRandom(seed);
  const pick = (count: number): number => Math.floor(random() * count);
  const counts: ScheduleCounts = {
    runs: 0,
    cancels: 0,
    steers: 0,
    reverts: 0,
    restores: 0,
    compactions: 0,
    connections: 0,
    drops: 0,
    splitEvents: 0,
    refusedCursors: 0,
    events: 0,
    characters: 0,
    rewinds: 0,
    repeatedMessages: 0,
  };
  const losesWrites = random() < 0.2;
  const session = await group.agent.sessions.create();
  const path = `/api/sessions/${session.id}`;
  // Each watcher has its own random numbers, so that the number of drops does not change the actions.
  const [httpRandom, clientRandom, sharedRandom] = [1, 2, 3].map((n) => createRandom(seed * 10 + n)) as [
    () => number,
    () => number,
    () => number,
  ];
  const watchers = [
    new HttpWatcher(`${path}/events`, () => group.pickServer(httpRandom)?.url, httpRandom),
    new ClientWatcher(session.id, () => group.pickServer(clientRandom)?.url, clientRandom),
    new ClientWatcher(session.id, () => group.pickServer(sharedRandom)?.url, sharedRandom, true),
  ];
  /** Ignores errors that concurrent actions can cause. */
  const attempt = async <T>(work: () => Promise<T>): Promise<T | undefined> => work().catch(() => undefined);
  const post = (url: string, body: object, signal?: AbortSignal): Promise<string | undefined> =>
    attempt(async () => {
      const init = { method: "POST", body: JSON.stringify(body), ...(signal && { signal }) };
      const response = await fetch(new URL(url, group.pickServer(random)?.url), init);
      return await response.text();
    });
  const snapshotIds: string[] = [];
  const pendingWork: Promise<unknown>[] = [];
  const startPrompt = (n: number): void => {
    counts.runs += 1;
    const message = `prompt ${n} ${random() < 0.3 ? "filler ".repeat(600) : ""}`;
    const abortSignal = AbortSignal.timeout(20 + pick(400));
    if (random() < 0.4)
      pendingWork.push(
        attempt(async () => {
          const signal = random() < 0.2 ? abortSignal : new AbortController().signal;
          const run = await group.agent.run({ message, sessionId: session.id, signal });
          await run.result;
        }),
      );
    else {
      const requestKind = random();
      const body = { message, session_id: session.id };
      if (requestKind < 0.4) pendingWork.push(post("/api/run", { ...body, background: true }));
      else
        pendingWork.push(
          post("/api/run", { ...body, stream: requestKind < 0.8 }, random() < 0.3 ? abortSignal : undefined),
        );
    }
  };
  const ACTIONS: readonly (readonly [share: number, act: () => Promise<unknown>])[] = [
    [4, () => Promise.all(pendingWork.splice(0))],
    [
      2,
      () => {
        counts.cancels += 1;
        return random() < 0.5
          ? post(`${path}/cancel`, {})
          : attempt(async () => {
              const [run] = await group.agent.runs.list({ sessionId: session.id, limit: 1 });
              if (run) await group.agent.runs.cancel(run.id);
            });
      },
    ],
    [
      2,
      () => {
        counts.steers += 1;
        return post(`${path}/steer`, { message: `steer ${random()}` });
      },
    ],
    [
      3,
      () =>
        attempt(async () => {
          await Promise.all(pendingWork.splice(0));
          const messages = await group.agent.sessions.messages(session.id);
          const targetMessage = messages[pick(messages.length)];
          if (!targetMessage) return;
          snapshotIds.push((await group.agent.sessions.revert(session.id, targetMessage.id)).id);
          counts.reverts += 1;
        }),
    ],
    [
      2,
      () =>
        attempt(async () => {
          const snapshotId = snapshotIds.pop();
          if (snapshotId === undefined) return;
          const newSnapshot = await group.agent.sessions.restore(session.id, snapshotId);
          if (newSnapshot) snapshotIds.push(newSnapshot.id);
          counts.restores += 1;
        }),
    ],
    [1, () => attempt(() => group.agent.sessions.update(session.id, { title: `title ${random()}` }))],
    [1.5, () => group.restart(pick(2), "SIGKILL")],
    [0.7, () => group.restart(pick(2), "SIGTERM")],
  ];
  const totalShare = ACTIONS.reduce((sum, [share]) => sum + share, 0);

  try {
    for (let step = 0; step < steps; step += 1) {
      startPrompt(step);
      if (losesWrites && step === Math.floor(steps / 3)) await group.saveDisk();
      for (let n = pick(3); n > 0; n -= 1) {
        // Pauses of the schedule, which the seed determines.
        await pause(random() * 150);
        let remainingShare = random() * totalShare;
        await ACTIONS.find(([share]) => (remainingShare -= share) < 0)?.[1]();
      }
      if (losesWrites && step === Math.floor((steps * 2) / 3)) {
        // Time for writes that the disk will lose.
        await pause(100);
        await group.rollBackDisk();
      }
    }
    await Promise.all(pendingWork.splice(0));
    const listOpenRuns = () =>
      group.agent.runs.list({ sessionId: session.id, states: ["running", "waiting"], limit: 1 });
    const fetchMessagesText = async () =>
      (await fetch(new URL(`${path}/messages`, group.pickServer(random)?.url))).text();
    let expectedText = "";
    // Fetches the messages in each check, because a late instruction may start another run.
    const isSettled = async (): Promise<boolean> => {
      if ((await listOpenRuns()).length > 0) return false;
      expectedText = await fetchMessagesText();
      return watchers.every(({ page }) => toJson(page) === expectedText);
    };
    // The checks below report which watcher differs.
    await waitUntil(isSettled).catch(() => undefined);
    // A late or repeated event arrives before the events of another run.
    await attempt(async () => (await group.agent.run({ message: "the end", sessionId: session.id })).result);
    await waitUntil(isSettled).catch(() => undefined);
    const faults = watchers.map(({ page }) => describeFault(page, expectedText, losesWrites));
    const messages = await group.agent.sessions.messages(session.id);
    counts.compactions = new Set(messages.map(({ sessionId }) => sessionId)).size - 1;
    for (const [n, fault] of faults.entries()) {
      const { page } = watchers[n]!;
      if (fault !== "") throw new Error(`watcher ${n} ${fault}\n${page.trace.slice(-100).join("\n")}`);
    }
  } finally {
    for (const watcher of watchers) {
      await watcher.end();
      const { page, connections, drops, splitEvents, refusedCursors } = watcher;
      for (const [name, count] of Object.entries({ connections, drops, splitEvents, refusedCursors }))
        counts[name as keyof ScheduleCounts] += count;
      for (const name of ["events", "characters", "rewinds", "repeatedMessages"] as const) counts[name] += page[name];
    }
    await Promise.all(pendingWork.splice(0));
  }
  return counts;
}

function toJson({ messages }: CheckedPage): string {
  return JSON.stringify({ messages });
}

/** Description of a page's faults; "" if it has none. */
function describeFault(page: CheckedPage, expectedText: string, losesWrites: boolean): string {
  if (toJson(page) !== expectedText)
    return `differs from the stored messages: ${describeDifference(toJson(page), expectedText)}`;
  if (page.faults.length > 0) return `received ${page.faults.join("; ").slice(0, 2_000)}`;
  return page.repeatedMessages > 0 && !losesWrites ? `received ${page.repeatedMessages} messages twice` : "";
}

/** Position where two texts differ, with their contents around it. */
function describeDifference(actualText: string, expectedText: string): string {
  let offset = 0;
  while (offset < actualText.length && actualText[offset] === expectedText[offset]) offset += 1;
  const excerpt = (text: string) => text.slice(Math.max(0, offset - 200), offset + 300);
  return `at ${offset} of ${actualText.length} and ${expectedText.length}\n${excerpt(actualText)}\nand not\n${excerpt(expectedText)}`;
}
