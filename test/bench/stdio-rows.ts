// Rows of an agent over standard input and output, compared with the floor agent and any peers.
import type { ChildProcess } from "node:child_process";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AcpClient } from "./acp-client.js";
import {
  resolveBenchFile,
  runInterleaved,
  type Bench,
  type Figure,
  type RowMeasurement,
  type Scenario,
} from "./bench.js";
import { readCpuMs, endProcess, readMemory, startProcess, type Command } from "./processes.js";
import { mean, median } from "./statistics.js";

/** Time limit of one operation. A slower peer is excluded from the remaining rows. */
const OPERATION_TIMEOUT_MS = 60_000;
/** A slow peer is not measured further after this number of samples of a row with this total time. */
const MIN_PEER_SAMPLING = { samples: 5, ms: 10_000 };

interface AgentSubject {
  name: string;
  command: Command;
  env: NodeJS.ProcessEnv;
  cwd: string;
  figuresByRow: Map<string, Figure & { cpuSamplesMs: number[] }>;
  /** Why a row is not measured, by row; the key `start` stands for all rows. */
  failuresByRow: Map<string, string>;
}

interface LiveAgent {
  subject: AgentSubject;
  child: ChildProcess;
  client: AcpClient;
  /** The newest session: some agents support only one. */
  sessionId: string;
}

/**
 * Turn rows: prompt, rounds (full run, quick run), and the minimum result. The subjects take turns, because consecutive
 * turns of one process would be warmer than in normal use.
 */
const TURN_ROWS = {
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
type TurnRow = keyof typeof TURN_ROWS;

/** Fewer warm-up turns run for a slow agent. */
const MAX_WARM_UP_MS = 5_000;
const WARM_UP_TURNS: Record<TurnRow, number> = { "warm-turn": 60, "tokens-5000": 3, "tool-read": 10, "tool-shell": 10 };

export const stdioRows: Scenario = {
  rows: ["stdio-start", "warm-turn", "first-turn", "tokens-5000", "tool-read", "tool-shell", "rss-idle", "rss-peak"],
  async run(bench) {
    const subjects = createSubjects(bench);
    const needsStarts = ["stdio-start", "first-turn", "rss-idle"].some((row) => bench.isRowRequested(row));
    // Turns run before starts, because `first-turn` is compared with the warm turn.
    await measureTurns(bench, subjects);
    if (needsStarts) {
      await runInterleaved(subjects, bench.getRounds(20, 5), measureStart);
      await runInterleaved(subjects, bench.getRounds(3, 2), measureIdleMemory);
    }
    return createMeasurements(bench, subjects);
  },
};

function createSubjects(bench: Bench): AgentSubject[] {
  const cwd = bench.createProject();
  const home = bench.createHome();
  const env = bench.createEnvironment(home);
  const createMaps = () => ({
    figuresByRow: new Map<string, Figure & { cpuSamplesMs: number[] }>(),
    failuresByRow: new Map<string, string>(),
  });
  return [
    { name: "gantry", command: bench.getGantryCommand("serve", "--acp", "--stdio"), env, cwd, ...createMaps() },
    {
      name: "floor",
      command: [bench.options.node, resolveBenchFile("floor-agent.mjs"), bench.modelUrl],
      env,
      cwd,
      ...createMaps(),
    },
    ...bench.options.peers.map(({ name, command }) => {
      const peerEnv = { ...process.env, BENCH_MODEL: bench.modelUrl };
      return { name, command: command.replaceAll("{model}", bench.modelUrl), env: peerEnv, cwd, ...createMaps() };
    }),
  ];
}

function addSample({ figuresByRow }: AgentSubject, row: string, value: number, cpuMs = NaN): void {
  const figure = figuresByRow.get(row) ?? { samples: [], cpuSamplesMs: [] };
  figuresByRow.set(row, figure);
  figure.samples.push(value);
  if (!Number.isNaN(cpuMs)) figure.cpuSamplesMs.push(cpuMs);
}

/**
 * Runs a measurement. A peer's failure is recorded and excludes the peer; a failure of gantry or the floor is thrown.
 */
async function attempt(
  { name, failuresByRow }: AgentSubject,
  step: string,
  measure: () => Promise<void>,
): Promise<void> {
  if (failuresByRow.has("start") || failuresByRow.has(step)) return;
  const abortController = new AbortController();
  try {
    const timeout = delay(OPERATION_TIMEOUT_MS, undefined, { signal: abortController.signal }).then(() => {
      throw new Error(`not done after ${OPERATION_TIMEOUT_MS / 1000} s`);
    });
    timeout.catch(() => {});
    await Promise.race([measure(), timeout]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (name === "gantry" || name === "floor") throw new Error(`${name}, ${step}: ${reason}`, { cause: error });
    failuresByRow.set(step, reason);
  } finally {
    abortController.abort();
  }
}

/** Whether a peer has enough samples. Gantry and the floor are measured in every round. */
function hasEnoughSamples({ name, figuresByRow }: AgentSubject, row: string): boolean {
  const samples = name === "gantry" || name === "floor" ? [] : (figuresByRow.get(row)?.samples ?? []);
  return samples.length >= MIN_PEER_SAMPLING.samples && samples.reduce((sum, ms) => sum + ms, 0) > MIN_PEER_SAMPLING.ms;
}

async function measureTurns(bench: Bench, subjects: readonly AgentSubject[]): Promise<void> {
  const requestedRows = (Object.keys(TURN_ROWS) as TurnRow[]).filter(
    (row) =>
      bench.isRowRequested(row) ||
      (row === "warm-turn" && bench.isRowRequested("first-turn")) ||
      bench.isRowRequested("rss-peak"),
  );
  if (requestedRows.length === 0) return;
  const liveAgents: LiveAgent[] = [];
  try {
    for (const subject of subjects)
      await attempt(subject, "start", async () => {
        const child = startProcess(subject.command, subject);
        const liveAgent = { subject, child, client: new AcpClient(child), sessionId: "" };
        liveAgents.push(liveAgent);
        liveAgent.sessionId = await liveAgent.client.openSession(subject.cwd);
      });
    for (const row of requestedRows) {
      for (const liveAgent of liveAgents) await warmUp(liveAgent, row);
      await runInterleaved(
        liveAgents,
        bench.getRounds(TURN_ROWS[row].rounds[0], TURN_ROWS[row].rounds[1]),
        (liveAgent) => measureTurn(liveAgent, row),
      );
    }
    for (const { subject, child } of liveAgents) addSample(subject, "rss-peak", readMemory(child).peakMb);
  } finally {
    await Promise.all(liveAgents.map(({ child }) => endProcess(child)));
  }
}

async function warmUp(liveAgent: LiveAgent, row: TurnRow): Promise<void> {
  const deadlineMs = performance.now() + MAX_WARM_UP_MS;
  await attempt(liveAgent.subject, row, async () => {
    const { sessionId } = await liveAgent.client.request("session/new", { cwd: liveAgent.subject.cwd, mcpServers: [] });
    liveAgent.sessionId = sessionId as string;
    for (let n = 0; n < WARM_UP_TURNS[row] && performance.now() < deadlineMs; n++) await runTurn(liveAgent, row);
  });
}

async function runTurn({ client, subject, sessionId }: LiveAgent, row: TurnRow): Promise<number> {
  const { prompt, characters, tools } = TURN_ROWS[row];
  const turnResult = await client.runTurn(sessionId, prompt(subject.cwd));
  if (turnResult.characters < characters) throw new Error(`received only ${turnResult.characters} characters`);
  if (turnResult.toolCalls < tools) throw new Error("no tool was called");
  return turnResult.ms;
}

async function measureTurn(liveAgent: LiveAgent, row: TurnRow): Promise<void> {
  if (hasEnoughSamples(liveAgent.subject, row)) return;
  await attempt(liveAgent.subject, row, async () => {
    const cpuMsBefore = readCpuMs(liveAgent.child);
    const ms = await runTurn(liveAgent, row);
    addSample(liveAgent.subject, row, ms, readCpuMs(liveAgent.child) - cpuMsBefore);
  });
}

/** Measures one process from its spawn to the end of its first turn. */
async function measureStart(subject: AgentSubject): Promise<void> {
  if (hasEnoughSamples(subject, "stdio-start")) return;
  await attempt(subject, "start", async () => {
    const startMs = performance.now();
    const child = startProcess(subject.command, subject);
    try {
      const client = new AcpClient(child);
      const sessionId = await client.openSession(subject.cwd);
      addSample(subject, "stdio-start", performance.now() - startMs, readCpuMs(child));
      addSample(subject, "first-turn", (await client.runTurn(sessionId, "hi")).ms);
    } finally {
      await endProcess(child);
    }
  });
}

/** Measures the memory of an idle process with one session. */
async function measureIdleMemory(subject: AgentSubject): Promise<void> {
  await attempt(subject, "start", async () => {
    const child = startProcess(subject.command, subject);
    try {
      await new AcpClient(child).openSession(subject.cwd);
      // The process becomes idle in this time.
      await delay(500);
      addSample(subject, "rss-idle", readMemory(child).currentMb);
    } finally {
      await endProcess(child);
    }
  });
}

function createMeasurements(bench: Bench, subjects: readonly AgentSubject[]): RowMeasurement[] {
  const [gantry, floor, ...peers] = subjects;
  const getFigure = (subject: AgentSubject | undefined, row: string): Figure | undefined => {
    const figure = subject?.figuresByRow.get(row);
    return (
      figure && {
        samples: figure.samples,
        ...(figure.cpuSamplesMs.length > 0 ? { cpuMs: mean(figure.cpuSamplesMs) } : {}),
      }
    );
  };
  const measurements: RowMeasurement[] = [];
  for (const row of stdioRows.rows) {
    const gantryFigure = getFigure(gantry, row);
    if (!gantryFigure || !bench.isRowRequested(row)) continue;
    const floorFigure = row === "first-turn" ? getFigure(gantry, "warm-turn") : getFigure(floor, row);
    const peerFigures = peers.map((peer) => [peer.name, getFigure(peer, row) ?? { samples: [] }] as const);
    const notes = peers.flatMap(({ name, failuresByRow }) => {
      const reason = failuresByRow.get(row) ?? failuresByRow.get("start");
      return reason === undefined ? [] : [`${name}: ${reason}`];
    });
    if (row === "first-turn") {
      const firstTurnMs = median(getFigure(floor, row)?.samples ?? []);
      notes.push(`the floor agent's first turn: ${firstTurnMs.toFixed(1)} ms`);
    }
    const comparedValue =
      median(gantryFigure.samples) / (row.startsWith("rss") ? 1 : median(floorFigure?.samples ?? []));
    measurements.push({
      row,
      comparedValue,
      gantry: gantryFigure,
      ...(floorFigure ? { floor: floorFigure } : {}),
      peers: Object.fromEntries(peerFigures),
      notes,
    });
  }
  return measurements;
}
