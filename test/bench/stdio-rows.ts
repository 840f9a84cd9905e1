// Rows of an agent over standard input and output, compared with the floor agent and any peers.
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AcpClient } from "./acp-client.js";
import {
  addSample,
  attempt,
  createSubjects,
  getFigure,
  getMedian,
  getPeerFigures,
  hasEnoughSamples,
  type AgentSubject,
  type LiveAgent,
} from "./agent-subjects.js";
import { runInterleaved, type Bench, type RowMeasurement, type Scenario } from "./bench.js";
import { readCpuMs, endProcess, readMemory, startProcess } from "./processes.js";

/** Turns of a process after its first. */
const EARLY_TURNS = 20;

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
  rows: [
    "stdio-start",
    "warm-turn",
    "first-turn",
    "early-turns",
    "tokens-5000",
    "tool-read",
    "tool-shell",
    "rss-idle",
    "rss-peak",
  ],
  async run(bench) {
    const subjects = createSubjects(bench);
    const needsStarts = ["stdio-start", "first-turn", "early-turns"].some((row) => bench.isRowRequested(row));
    // Turns run before starts, because `first-turn` is compared with the warm turn.
    await measureTurns(bench, subjects);
    if (needsStarts)
      await runInterleaved(subjects, bench.getRounds(20, 5), (subject) =>
        measureStart(subject, bench.isRowRequested("early-turns")),
      );
    if (bench.isRowRequested("rss-idle")) await runInterleaved(subjects, bench.getRounds(3, 2), measureIdleMemory);
    return createMeasurements(bench, subjects);
  },
};

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

/** Measures one process from its spawn to the end of its first turn, or of its first 21 turns. */
async function measureStart(subject: AgentSubject, needsEarlyTurns: boolean): Promise<void> {
  if (hasEnoughSamples(subject, "stdio-start")) return;
  const startMs = performance.now();
  const child = startProcess(subject.command, subject);
  const client = new AcpClient(child);
  let sessionId = "";
  try {
    await attempt(subject, "start", async () => {
      sessionId = await client.openSession(subject.cwd);
      addSample(subject, "stdio-start", performance.now() - startMs, readCpuMs(child));
      addSample(subject, "first-turn", (await client.runTurn(sessionId, "hi")).ms);
    });
    if (!needsEarlyTurns || hasEnoughSamples(subject, "early-turns")) return;
    await attempt(subject, "early-turns", async () => {
      const cpuMsBefore = readCpuMs(child);
      const turnsMs: number[] = [];
      for (let n = 0; n < EARLY_TURNS; n++) turnsMs.push((await client.runTurn(sessionId, "hi")).ms);
      const cpuMs = (readCpuMs(child) - cpuMsBefore) / EARLY_TURNS;
      for (const ms of turnsMs) addSample(subject, "early-turns", ms, cpuMs);
    });
  } finally {
    await endProcess(child);
  }
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
  const measurements: RowMeasurement[] = [];
  for (const row of stdioRows.rows) {
    const gantryFigure = getFigure(gantry, row);
    if (!gantryFigure || !bench.isRowRequested(row)) continue;
    const floorFigure = row === "first-turn" ? getFigure(gantry, "warm-turn") : getFigure(floor, row);
    const { peers: peerFigures, notes } = getPeerFigures(peers, row);
    const floorFirstTurnMs = getMedian(getFigure(floor, row)).toFixed(1);
    measurements.push({
      row,
      comparedValue: getMedian(gantryFigure) / (row.startsWith("rss") ? 1 : getMedian(floorFigure)),
      gantry: gantryFigure,
      ...(floorFigure ? { floor: floorFigure } : {}),
      peers: peerFigures,
      notes: row === "first-turn" ? [...notes, `the floor agent's first turn: ${floorFirstTurnMs} ms`] : notes,
    });
  }
  return measurements;
}
