// Rows of an agent over standard input and output, compared with the floor agent and any peers.
import type { ChildProcess } from "node:child_process";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AcpClient } from "./acp-client.js";
import { beside, interleaved, type Bench, type Figure, type Line, type Scenario } from "./bench.js";
import { cpuOf, end, memoryOf, start, type Command } from "./processes.js";
import { mean, median } from "./statistics.js";

/** Time limit of one operation, in ms. A slower peer is excluded from the rest. */
const OPERATION_TIMEOUT_MS = 60_000;
/** A slow peer is not measured further once it has this many samples of a row, which took this time together. */
const MIN_PEER_SAMPLING = { samples: 5, ms: 10_000 };

interface Subject {
  name: string;
  command: Command;
  env: NodeJS.ProcessEnv;
  cwd: string;
  figures: Map<string, Figure & { cpu: number[] }>;
  /** Why a row is not measured, by row; the key `start` stands for all rows. */
  failures: Map<string, string>;
}

interface LiveAgent {
  subject: Subject;
  child: ChildProcess;
  client: AcpClient;
  /** The newest session: some agents support only one. */
  session: string;
}

/**
 * Turn rows: prompt, rounds (full run, quick run), and the minimum result. The subjects take turns, because consecutive
 * turns of one process would be warmer than in normal use.
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

export const stdioRows: Scenario = {
  rows: ["stdio-start", "warm-turn", "first-turn", "tokens-5000", "tool-read", "tool-shell", "rss-idle", "rss-peak"],
  async run(bench) {
    const subjects = subjectsOf(bench);
    const starts = ["stdio-start", "first-turn", "rss-idle"].some((row) => bench.wants(row));
    // Turns run before starts, because `first-turn` is compared with the warm turn.
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

/** Runs a measurement. A peer's failure is recorded and excludes it; a failure of gantry or the floor is thrown. */
async function attempt({ name, failures }: Subject, what: string, work: () => Promise<void>): Promise<void> {
  if (failures.has("start") || failures.has(what)) return;
  const late = new AbortController();
  try {
    const timeout = delay(OPERATION_TIMEOUT_MS, undefined, { signal: late.signal }).then(() => {
      throw new Error(`not done after ${OPERATION_TIMEOUT_MS / 1000} s`);
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

/** Whether a peer has enough samples. Gantry and the floor are measured in every round. */
function enough({ name, figures }: Subject, row: string): boolean {
  const samples = name === "gantry" || name === "floor" ? [] : (figures.get(row)?.samples ?? []);
  return samples.length >= MIN_PEER_SAMPLING.samples && samples.reduce((sum, ms) => sum + ms, 0) > MIN_PEER_SAMPLING.ms;
}

async function turns(bench: Bench, subjects: readonly Subject[]): Promise<void> {
  const requestedRows = (Object.keys(TURNS) as TurnRow[]).filter(
    (row) => bench.wants(row) || (row === "warm-turn" && bench.wants("first-turn")) || bench.wants("rss-peak"),
  );
  if (requestedRows.length === 0) return;
  const live: LiveAgent[] = [];
  try {
    for (const subject of subjects)
      await attempt(subject, "start", async () => {
        const child = start(subject.command, subject);
        const liveAgent = { subject, child, client: new AcpClient(child), session: "" };
        live.push(liveAgent);
        liveAgent.session = await liveAgent.client.open(subject.cwd);
      });
    for (const row of requestedRows) {
      for (const liveAgent of live) await warmUp(liveAgent, row);
      await interleaved(live, bench.rounds(TURNS[row].rounds[0], TURNS[row].rounds[1]), (liveAgent) =>
        measureTurn(liveAgent, row),
      );
    }
    for (const { subject, child } of live) note(subject, "rss-peak", memoryOf(child).peak);
  } finally {
    await Promise.all(live.map(({ child }) => end(child)));
  }
}

async function warmUp(liveAgent: LiveAgent, row: TurnRow): Promise<void> {
  const until = performance.now() + 5_000;
  await attempt(liveAgent.subject, row, async () => {
    const { sessionId } = await liveAgent.client.ask("session/new", { cwd: liveAgent.subject.cwd, mcpServers: [] });
    liveAgent.session = sessionId as string;
    for (let n = 0; n < WARM_UP[row] && performance.now() < until; n++) await turn(liveAgent, row);
  });
}

async function turn({ client, subject, session }: LiveAgent, row: TurnRow): Promise<number> {
  const { prompt, characters, tools } = TURNS[row];
  const done = await client.turn(session, prompt(subject.cwd));
  if (done.characters < characters) throw new Error(`only ${done.characters} characters came`);
  if (done.toolCalls < tools) throw new Error("no tool was called");
  return done.ms;
}

async function measureTurn(liveAgent: LiveAgent, row: TurnRow): Promise<void> {
  if (enough(liveAgent.subject, row)) return;
  await attempt(liveAgent.subject, row, async () => {
    const before = cpuOf(liveAgent.child);
    const ms = await turn(liveAgent, row);
    note(liveAgent.subject, row, ms, cpuOf(liveAgent.child) - before);
  });
}

/** Measures one process from its spawn to the end of its first turn. */
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

/** Measures the memory of an idle process with one session. */
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
    const figure = subject?.figures.get(row);
    return figure && { samples: figure.samples, ...(figure.cpu.length > 0 ? { cpuMs: mean(figure.cpu) } : {}) };
  };
  const lines: Line[] = [];
  for (const row of stdioRows.rows) {
    const gantryFigure = figureOf(gantry, row);
    if (!gantryFigure || !bench.wants(row)) continue;
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
    const judged = median(gantryFigure.samples) / (row.startsWith("rss") ? 1 : median(base?.samples ?? []));
    lines.push({
      row,
      judged,
      gantry: gantryFigure,
      ...(base ? { floor: base } : {}),
      peers: Object.fromEntries(beside),
      notes,
    });
  }
  return lines;
}
