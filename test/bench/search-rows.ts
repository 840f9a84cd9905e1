// Rows of searches in many files: a tool turn, compared with ripgrep in the same folder.
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
} from "./agent-subjects.js";
import { runInterleaved, type Bench, type RowMeasurement, type Scenario } from "./bench.js";
import { createTempFolder, endProcess, readCpuMs, startProcess } from "./processes.js";
import { createSearchFiles, runRipgrep } from "./search-folder.js";

const FILE_COUNT = 5_000;
const WARM_UP_TURNS = 3;

/** Prompt of the tool turn, and the arguments of ripgrep. */
const SEARCHES = {
  "grep-5000": { prompt: "[tool=grep pattern=needle]", ripgrepArguments: ["needle", "."] },
  "glob-5000": { prompt: "[tool=glob pattern=**/*.md]", ripgrepArguments: ["--files", "--glob=**/*.md", "."] },
} as const;
type SearchRow = keyof typeof SEARCHES;
const TURNS_PER_SESSION = 8;

/** A subject with a function that runs a search once. */
interface Searcher {
  subject: AgentSubject;
  search(row: SearchRow): Promise<void>;
  end(): Promise<void>;
  readCpuMs(): number;
}

export const searchRows: Scenario = {
  rows: Object.keys(SEARCHES),
  async run(bench) {
    const folder = createTempFolder();
    await createSearchFiles(folder, FILE_COUNT);
    const [gantry, floor, ...peers] = createSubjects(bench, folder) as [AgentSubject, AgentSubject, ...AgentSubject[]];
    const searchers: Searcher[] = [createRipgrepSearcher(floor, folder)];
    const rows = (Object.keys(SEARCHES) as SearchRow[]).filter((row) => bench.isRowRequested(row));
    try {
      for (const subject of [gantry, ...peers])
        await attempt(subject, "start", async () => void searchers.push(await openSearcher(subject)));
      for (const row of rows) await measureSearches(bench, searchers, row);
    } finally {
      await Promise.all(searchers.map((searcher) => searcher.end()));
    }
    return rows.map((row): RowMeasurement => {
      const [gantryFigure, floorFigure] = [getFigure(gantry, row)!, getFigure(floor, row)!];
      return {
        row,
        comparedValue: getMedian(gantryFigure) / getMedian(floorFigure),
        gantry: gantryFigure,
        floor: floorFigure,
        ...getPeerFigures(peers, row),
      };
    });
  },
};

/** Every call starts a process, so the CPU time of a search is unknown. */
const createRipgrepSearcher = (subject: AgentSubject, folder: string): Searcher => ({
  subject,
  search: (row) => runRipgrep(SEARCHES[row].ripgrepArguments, folder),
  end: async () => {},
  readCpuMs: () => NaN,
});

async function openSearcher(subject: AgentSubject): Promise<Searcher> {
  const child = startProcess(subject.command, subject);
  const client = new AcpClient(child);
  let sessionId = await client.openSession(subject.cwd);
  let turns = 0;
  return {
    subject,
    async search(row) {
      // A result has up to 30 kB and is part of each later request of its session.
      if (++turns % TURNS_PER_SESSION === 0)
        ({ sessionId } = (await client.request("session/new", { cwd: subject.cwd, mcpServers: [] })) as {
          sessionId: string;
        });
      if ((await client.runTurn(sessionId, SEARCHES[row].prompt)).toolCalls === 0)
        throw new Error("no tool was called");
    },
    end: () => endProcess(child),
    readCpuMs: () => readCpuMs(child),
  };
}

async function measureSearches(bench: Bench, searchers: readonly Searcher[], row: SearchRow): Promise<void> {
  for (const { subject, search } of searchers)
    await attempt(subject, row, async () => {
      for (let n = 0; n < WARM_UP_TURNS; n++) await search(row);
    });
  await runInterleaved(searchers, bench.getRounds(30, 10), async (searcher) => {
    const { subject } = searcher;
    if (hasEnoughSamples(subject, row)) return;
    await attempt(subject, row, async () => {
      const cpuMsBefore = searcher.readCpuMs();
      const startMs = performance.now();
      await searcher.search(row);
      addSample(subject, row, performance.now() - startMs, searcher.readCpuMs() - cpuMsBefore);
    });
  });
}
