// A session that begins after a silence, compared with one that begins in a process that has just worked.
import { setTimeout as delay } from "node:timers/promises";
import { AcpClient } from "./acp-client.js";
import { runInterleaved, type Figure, type Scenario } from "./bench.js";
import { endProcess, startProcess } from "./processes.js";
import { median } from "./statistics.js";

/** Time without requests. Caches of gantry expire after at most 10 s, and connections to the model after 4 s. */
const [SILENCE_MS, QUICK_SILENCE_MS] = [60_000, 11_000];
const WARM_UP_TURNS = 30;
const WARM_SESSIONS = 3;

export const silenceRows: Scenario = {
  rows: ["after-silence"],
  async run(bench) {
    const project = bench.createProject();
    const warmFigure: Figure = { samples: [] };
    const silentFigure: Figure = { samples: [] };
    // All processes wait through the same silence, each with its own store.
    const children = Array.from({ length: bench.getRounds(9, 5) }, () =>
      startProcess(bench.getGantryCommand("serve", "--acp", "--stdio"), {
        cwd: project,
        env: bench.createEnvironment(bench.createHome()),
      }),
    );
    try {
      const clients = children.map((child) => new AcpClient(child));
      for (const client of clients) {
        const sessionId = await client.openSession(project);
        for (let n = 0; n < WARM_UP_TURNS; n++) await client.runTurn(sessionId, "hi");
      }
      await runInterleaved(clients, WARM_SESSIONS, async (client) => {
        // The other processes have worked in the meantime: one session is not measured.
        await beginSession(client, project);
        warmFigure.samples.push(await beginSession(client, project));
      });
      await delay(bench.options.quick ? QUICK_SILENCE_MS : SILENCE_MS);
      for (const client of clients) silentFigure.samples.push(await beginSession(client, project));
    } finally {
      await Promise.all(children.map((child) => endProcess(child)));
    }
    const comparedValue = median(silentFigure.samples) - median(warmFigure.samples);
    return [{ row: "after-silence", comparedValue, gantry: silentFigure, floor: warmFigure }];
  },
};

/** Creates a session and runs its first turn. Resolves with the duration of both. */
async function beginSession(client: AcpClient, cwd: string): Promise<number> {
  const startMs = performance.now();
  const { sessionId } = (await client.request("session/new", { cwd, mcpServers: [] })) as { sessionId: string };
  await client.runTurn(sessionId, "hi");
  return performance.now() - startMs;
}
