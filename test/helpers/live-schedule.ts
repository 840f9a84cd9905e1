import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedReply } from "gantry/testing";
import type { FakePiece, FakeStep } from "./fake-model-server.js";
import { ClientWatcher } from "./client-watcher.js";
import type { Fleet } from "./fleet.js";
import { HttpWatcher, type CountedPage } from "./http-watcher.js";
import { pause, until } from "./lab.js";
import { randomOf } from "./random.js";

/** Counts of a schedule's actions, in addition to those of its fleet. */
export interface Tally {
  runs: number;
  cancels: number;
  steers: number;
  reverts: number;
  restores: number;
  compactions: number;
  connections: number;
  drops: number;
  /** Drops in the middle of an event. */
  broken: number;
  refused: number;
  events: number;
  characters: number;
  rewinds: number;
  retold: number;
}

/** Random words; some contain an emoji that is split into its halves. */
function words(random: () => number, name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const kind = random();
    return kind < 0.06 ? ["\ud83d", "\ude42 "] : [`${name}${n}${kind < 0.1 ? "\u2028" : ""} `];
  }).flat();
}

/** A random answer on a wire: reasoning, text in pieces, calls. Some answers are interrupted. */
export function wireAnswer(random: () => number): FakeStep {
  const say: FakePiece[] = [];
  if (random() < 0.4) say.push({ reasoning: words(random, "why", 1 + random() * 8) });
  say.push({ text: words(random, "word", 1 + random() * 70) });
  if (random() < 0.35) say.push({ call: { name: "glob", arguments: { pattern: "*" } } });
  return {
    say,
    pace: Math.floor(random() * 6),
    ...(random() < 0.1 ? { breaks: { at: random(), by: random() < 0.5 ? ("reset" as const) : ("cut" as const) } } : {}),
  };
}

/** Random answers for the agent of this process. */
export function localModel(random: () => number): ScriptedProvider {
  const fallback = (): ScriptedReply => {
    const chunks: ScriptedChunk[] = [];
    if (random() < 0.4)
      for (const text of words(random, "why", 1 + random() * 8)) chunks.push({ type: "reasoning", block: "r", text });
    for (const text of words(random, "word", 1 + random() * 50)) {
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
 * Servers are killed or stopped, a disk loses writes, and connections of watchers drop. Resolves when each watcher sees
 * the stored messages. Throws if one does not, or received something twice.
 */
export async function runSchedule(fleet: Fleet, seed: number, steps: number): Promise<Tally> {
  const random = randomOf(seed);
  const pick = (count: number): number => Math.floor(random() * count);
  const tally: Tally = {
    runs: 0,
    cancels: 0,
    steers: 0,
    reverts: 0,
    restores: 0,
    compactions: 0,
    connections: 0,
    drops: 0,
    broken: 0,
    refused: 0,
    events: 0,
    characters: 0,
    rewinds: 0,
    retold: 0,
  };
  const mayForget = random() < 0.2;
  const session = await fleet.agent.sessions.create();
  const path = `/api/sessions/${session.id}`;
  // Each watcher has its own random numbers, so that the number of drops does not change the actions.
  const [byHand, byClient] = [randomOf(seed * 10 + 1), randomOf(seed * 10 + 2)];
  const watchers = [
    new HttpWatcher(`${path}/events`, () => fleet.any(byHand)?.url, byHand),
    new ClientWatcher(session.id, () => fleet.any(byClient)?.url, byClient),
  ];
  /** Ignores errors that concurrent actions can cause. */
  const attempt = async <T>(work: () => Promise<T>): Promise<T | undefined> => work().catch(() => undefined);
  const post = (url: string, body: object, signal?: AbortSignal): Promise<string | undefined> =>
    attempt(async () => {
      const init = { method: "POST", body: JSON.stringify(body), ...(signal && { signal }) };
      const response = await fetch(new URL(url, fleet.any(random)?.url), init);
      return await response.text();
    });
  const snapshots: string[] = [];
  const under: Promise<unknown>[] = [];
  const prompt = (n: number): void => {
    tally.runs += 1;
    const message = `prompt ${n} ${random() < 0.3 ? "filler ".repeat(600) : ""}`;
    const leaves = AbortSignal.timeout(20 + pick(400));
    if (random() < 0.4)
      under.push(
        attempt(async () => {
          const signal = random() < 0.2 ? leaves : new AbortController().signal;
          const run = await fleet.agent.run({ message, sessionId: session.id, signal });
          await run.result;
        }),
      );
    else {
      const how = random();
      const body = { message, session_id: session.id };
      if (how < 0.4) under.push(post("/api/run", { ...body, background: true }));
      else under.push(post("/api/run", { ...body, stream: how < 0.8 }, random() < 0.3 ? leaves : undefined));
    }
  };
  const ACTIONS: readonly (readonly [share: number, act: () => Promise<unknown>])[] = [
    [4, () => Promise.all(under.splice(0))],
    [
      2,
      () => {
        tally.cancels += 1;
        return random() < 0.5
          ? post(`${path}/cancel`, {})
          : attempt(async () => {
              const [run] = await fleet.agent.runs.list({ sessionId: session.id, limit: 1 });
              if (run) await fleet.agent.runs.cancel(run.id);
            });
      },
    ],
    [
      2,
      () => {
        tally.steers += 1;
        return post(`${path}/steer`, { message: `steer ${random()}` });
      },
    ],
    [
      3,
      () =>
        attempt(async () => {
          await Promise.all(under.splice(0));
          const messages = await fleet.agent.sessions.messages(session.id);
          const last = messages[pick(messages.length)];
          if (!last) return;
          snapshots.push((await fleet.agent.sessions.revert(session.id, last.id)).id);
          tally.reverts += 1;
        }),
    ],
    [
      2,
      () =>
        attempt(async () => {
          const snapshot = snapshots.pop();
          if (snapshot === undefined) return;
          const aside = await fleet.agent.sessions.restore(session.id, snapshot);
          if (aside) snapshots.push(aside.id);
          tally.restores += 1;
        }),
    ],
    [1, () => attempt(() => fleet.agent.sessions.update(session.id, { title: `title ${random()}` }))],
    [1.5, () => fleet.restart(pick(2), "SIGKILL")],
    [0.7, () => fleet.restart(pick(2), "SIGTERM")],
  ];
  const all = ACTIONS.reduce((sum, [share]) => sum + share, 0);

  try {
    for (let step = 0; step < steps; step += 1) {
      prompt(step);
      if (mayForget && step === Math.floor(steps / 3)) await fleet.keepDisk();
      for (let n = pick(3); n > 0; n -= 1) {
        // Pauses of the schedule, which the seed determines.
        await pause(random() * 150);
        let at = random() * all;
        await ACTIONS.find(([share]) => (at -= share) < 0)?.[1]();
      }
      if (mayForget && step === Math.floor((steps * 2) / 3)) {
        // Time for writes that the disk will lose.
        await pause(100);
        await fleet.forgetDisk();
      }
    }
    await Promise.all(under.splice(0));
    const open = () => fleet.agent.runs.list({ sessionId: session.id, states: ["running", "waiting"], limit: 1 });
    const stored = async () => (await fetch(new URL(`${path}/messages`, fleet.any(random)?.url))).text();
    let expectedText = "";
    // Read again each time: a late instruction may start another run.
    const settled = async (): Promise<boolean> => {
      if ((await open()).length > 0) return false;
      expectedText = await stored();
      return watchers.every(({ page }) => textOf(page) === expectedText);
    };
    // The checks below report which watcher differs.
    await until(settled).catch(() => undefined);
    // A late or repeated event arrives before those of another run.
    await attempt(async () => (await fleet.agent.run({ message: "the end", sessionId: session.id })).result);
    await until(settled).catch(() => undefined);
    const faults = watchers.map(({ page }) => faultOf(page, expectedText, mayForget));
    const messages = await fleet.agent.sessions.messages(session.id);
    tally.compactions = new Set(messages.map(({ sessionId }) => sessionId)).size - 1;
    for (const [n, fault] of faults.entries()) {
      const { page } = watchers[n]!;
      if (fault !== "") throw new Error(`watcher ${n} ${fault}\n${page.trace.slice(-100).join("\n")}`);
    }
  } finally {
    for (const watcher of watchers) {
      await watcher.end();
      const { page, connections, drops, broken, refused } = watcher;
      for (const [name, count] of Object.entries({ connections, drops, broken, refused }))
        tally[name as keyof Tally] += count;
      for (const name of ["events", "characters", "rewinds", "retold"] as const) tally[name] += page[name];
    }
    await Promise.all(under.splice(0));
  }
  return tally;
}

function textOf({ messages }: CountedPage): string {
  return JSON.stringify({ messages });
}

/** Description of a page's faults; "" if it has none. */
function faultOf(page: CountedPage, expectedText: string, mayForget: boolean): string {
  if (textOf(page) !== expectedText) return `saw another page: ${difference(textOf(page), expectedText)}`;
  if (page.faults.length > 0) return `was told ${page.faults.join("; ").slice(0, 2_000)}`;
  return page.retold > 0 && !mayForget ? `was told ${page.retold} messages twice` : "";
}

/** Position where two texts differ, with their contents around it. */
function difference(was: string, expectedText: string): string {
  let at = 0;
  while (at < was.length && was[at] === expectedText[at]) at += 1;
  const around = (text: string) => text.slice(Math.max(0, at - 200), at + 300);
  return `at ${at} of ${was.length} and ${expectedText.length}\n${around(was)}\nand not\n${around(expectedText)}`;
}
