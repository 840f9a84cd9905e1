// Rows of an agent on its standard input and output, beside the floor agent and any peers.
import type { ChildProcess } from "node:child_process";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AcpClient } from "./acp-client.js";
import { beside, interleaved, type Bench, type Figure, type Line, type Scenario } from "./bench.js";
import { cpuOf, end, memoryOf, start, type Command } from "./processes.js";
import { mean, median } from "./statistics.js";

/** A peer that takes longer for one thing is left out of what follows. */
const PATIENCE_MS = 60_000;
/** A slow peer has been measured well enough after so many samples of one row that took so long together. */
const ENOUGH = { samples: 5, ms: 10_000 };

interface Subject {
  name: string;
  command: Command;
  env: NodeJS.ProcessEnv;
  cwd: string;
  figures: Map<string, Figure & { cpu: number[] }>;
  /** By row, or `start` for all: why it is not measured. */
  failures: Map<string, string>;
}

interface Live {
  subject: Subject;
  child: ChildProcess;
  client: AcpClient;
  /** The newest: there are agents that hold no more than one. */
  session: string;
}

/**
 * What is asked in the rows of turns, how often (in a full run, in a quick one), and how much must come. One turn of
 * each subject after the other: in a row of its own turns a process is warmer than anybody finds it.
 */
const TURNS = {
  "warm-turn": { prompt: () => "hi", rounds: [200, 60], characters: 1, tools: 0 },
  "tokens-5000": { prompt: () => "[tokens=5000]", rounds: [10, 8], characters: 25_000, tools: 0 },
  "tool-read": {
    prompt: (cwd: string) => `[tool=read path=${path.join(cwd, "src/answer.ts")}]`,
    rounds: [60, 20],
    characters: 1,
    tools: 1,
  },
  "tool-shell": { prompt: () => "[tool=shell]", rounds: [60, 20], characters: 1, tools: 1 },
} as const;
type TurnRow = keyof typeof TURNS;

const WARM_UP: Record<TurnRow, number> = { "warm-turn": 60, "tokens-5000": 3, "tool-read": 10, "tool-shell": 10 };

/** All rows over stdio. */
export const stdioRows: Scenario = {
  rows: ["stdio-start", "warm-turn", "first-turn", "tokens-5000", "tool-read", "tool-shell", "rss-idle", "rss-peak"],
  async run(bench) {
    const subjects = subjectsOf(bench);
    const starts = ["stdio-start", "first-turn", "rss-idle"].some((row) => bench.wants(row));
    // Turns before starts: `first-turn` is compared with the warm one.
    await turns(bench, subjects);
    if (starts) {
      await interleaved(subjects, bench.rounds(20, 5), startOnce);
      await interleaved(subjects, bench.rounds(3, 2), idleOnce);
    }
    return linesOf(bench, subjects);
  },
};

function subjectsOf(bench: Bench): Subject[] {
  const cwd = bench.project();
  const home = bench.home();
  const env = bench.environment(home);
  const empty = () => ({ figures: new Map<string, Figure & { cpu: number[] }>(), failures: new Map<string, string>() });
  return [
    { name: "gantry", command: bench.gantry("serve", "--acp", "--stdio"), env, cwd, ...empty() },
    { name: "floor", command: [bench.options.node, beside("floor-agent.mjs"), bench.model], env, cwd, ...empty() },
    ...bench.options.peers.map(({ name, command }) => {
      const peerEnv = { ...process.env, BENCH_MODEL: bench.model };
      return { name, command: command.replaceAll("{model}", bench.model), env: peerEnv, cwd, ...empty() };
    }),
  ];
}

function note({ figures }: Subject, row: string, value: number, cpu = NaN): void {
  const figure = figures.get(row) ?? { samples: [], cpu: [] };
  figures.set(row, figure);
  figure.samples.push(value);
  if (!Number.isNaN(cpu)) figure.cpu.push(cpu);
}

/** A peer that cannot do something is told and left out of it; gantry and the floor must. */
async function attempt({ name, failures }: Subject, what: string, work: () => Promise<void>): Promise<void> {
  if (failures.has("start") || failures.has(what)) return;
  const late = new AbortController();
  try {
    const timeout = delay(PATIENCE_MS, undefined, { signal: late.signal }).then(() => {
      throw new Error(`not done after ${PATIENCE_MS / 1000} s`);
    });
    timeout.catch(() => {});
    await Promise.race([work(), timeout]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (name === "gantry" || name === "floor") throw new Error(`${name}, ${what}: ${why}`, { cause: error });
    failures.set(what, why);
  } finally {
    late.abort();
  }
}

/** Gantry and the floor are measured in every round. */
function enough({ name, figures }: Subject, row: string): boolean {
  const samples = name === "gantry" || name === "floor" ? [] : (figures.get(row)?.samples ?? []);
  return samples.length >= ENOUGH.samples && samples.reduce((sum, ms) => sum + ms, 0) > ENOUGH.ms;
}

async function turns(bench: Bench, subjects: readonly Subject[]): Promise<void> {
  const wanted = (Object.keys(TURNS) as TurnRow[]).filter(
    (row) => bench.wants(row) || (row === "warm-turn" && bench.wants("first-turn")) || bench.wants("rss-peak"),
  );
  if (wanted.length === 0) return;
  const live: Live[] = [];
  try {
    for (const subject of subjects)
      await attempt(subject, "start", async () => {
        const child = start(subject.command, subject);
        const one = { subject, child, client: new AcpClient(child), session: "" };
        live.push(one);
        one.session = await one.client.open(subject.cwd);
      });
    for (const row of wanted) {
      for (const one of live) await warmUp(one, row);
      await interleaved(live, bench.rounds(TURNS[row].rounds[0], TURNS[row].rounds[1]), (one) => measureTurn(one, row));
    }
    for (const { subject, child } of live) note(subject, "rss-peak", memoryOf(child).peak);
  } finally {
    await Promise.all(live.map(({ child }) => end(child)));
  }
}

async function warmUp(one: Live, row: TurnRow): Promise<void> {
  const until = performance.now() + 5_000;
  await attempt(one.subject, row, async () => {
    const { sessionId } = await one.client.ask("session/new", { cwd: one.subject.cwd, mcpServers: [] });
    one.session = sessionId as string;
    for (let n = 0; n < WARM_UP[row] && performance.now() < until; n++) await turn(one, row);
  });
}

async function turn({ client, subject, session }: Live, row: TurnRow): Promise<number> {
  const { prompt, characters, tools } = TURNS[row];
  const done = await client.turn(session, prompt(subject.cwd));
  if (done.characters < characters) throw new Error(`only ${done.characters} characters came`);
  if (done.toolCalls < tools) throw new Error("no tool was called");
  return done.ms;
}

async function measureTurn(one: Live, row: TurnRow): Promise<void> {
  if (enough(one.subject, row)) return;
  await attempt(one.subject, row, async () => {
    const before = cpuOf(one.child);
    const ms = await turn(one, row);
    note(one.subject, row, ms, cpuOf(one.child) - before);
  });
}

/** One process from its spawn to the end of its first turn. */
async function startOnce(subject: Subject): Promise<void> {
  if (enough(subject, "stdio-start")) return;
  await attempt(subject, "start", async () => {
    const since = performance.now();
    const child = start(subject.command, subject);
    try {
      const client = new AcpClient(child);
      const sessionId = await client.open(subject.cwd);
      note(subject, "stdio-start", performance.now() - since, cpuOf(child));
      note(subject, "first-turn", (await client.turn(sessionId, "hi")).ms);
    } finally {
      await end(child);
    }
  });
}

/** What a process holds that has a session and nothing to do. */
async function idleOnce(subject: Subject): Promise<void> {
  await attempt(subject, "start", async () => {
    const child = start(subject.command, subject);
    try {
      await new AcpClient(child).open(subject.cwd);
      await delay(500);
      note(subject, "rss-idle", memoryOf(child).now);
    } finally {
      await end(child);
    }
  });
}

function linesOf(bench: Bench, subjects: readonly Subject[]): Line[] {
  const [gantry, floor, ...peers] = subjects;
  const figureOf = (subject: Subject | undefined, row: string): Figure | undefined => {
    const found = subject?.figures.get(row);
    return found && { samples: found.samples, ...(found.cpu.length > 0 ? { cpuMs: mean(found.cpu) } : {}) };
  };
  const lines: Line[] = [];
  for (const row of stdioRows.rows) {
    const own = figureOf(gantry, row);
    if (!own || !bench.wants(row)) continue;
    const base = row === "first-turn" ? figureOf(gantry, "warm-turn") : figureOf(floor, row);
    const beside = peers.map((peer) => [peer.name, figureOf(peer, row) ?? { samples: [] }] as const);
    const notes = peers.flatMap(({ name, failures }) => {
      const why = failures.get(row) ?? failures.get("start");
      return why === undefined ? [] : [`${name}: ${why}`];
    });
    if (row === "first-turn") {
      const first = median(figureOf(floor, row)?.samples ?? []);
      notes.push(`the floor agent's first turn: ${first.toFixed(1)} ms`);
    }
    const judged = median(own.samples) / (row.startsWith("rss") ? 1 : median(base?.samples ?? []));
    lines.push({
      row,
      judged,
      gantry: own,
      ...(base ? { floor: base } : {}),
      peers: Object.fromEntries(beside),
      notes,
    });
  }
  return lines;
}
