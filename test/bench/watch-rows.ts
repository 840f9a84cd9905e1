// The row of a watched run, compared with the same run without watchers.
import { once } from "node:events";
import { interleaved, beside, lineOf, type Bench, type Figure, type Scenario, type Server } from "./bench.js";
import { HttpClient, textOfRun } from "./http-client.js";
import { cpuOf, memoryOf, end, start } from "./processes.js";
import { mean, median } from "./statistics.js";

const RUN_TOKENS = 20_000;
const WATCHERS = 20;
/** Characters of each word from the model. */
const WORD = 5;

/** Runs `work` with watchers. Resolves with the answer characters that each watcher has read, except the slow one. */
async function watched(bench: Bench, base: string, session: string, work: () => Promise<void>): Promise<number[]> {
  const child = start([bench.options.node, beside("watch-load.mjs"), base, session, String(WATCHERS)], {
    env: bench.environment(""),
    stderr: "inherit",
  });
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const closed = once(child, "close");
  await lineOf(child, /^\{"all":true\}$/m);
  await work();
  // The last events arrive within the notification delay.
  await new Promise((resolve) => setTimeout(resolve, 500));
  child.stdin?.end();
  await closed;
  await end(child);
  return (JSON.parse(output.trim().split("\n").at(-1) ?? "") as { characters: number[] }).characters;
}

/** A run of 20,000 tokens with 20 watchers, one of which reads a byte a second, compared with an unwatched run. */
export const watchedStream: Scenario = {
  rows: ["watch-20"],
  async run(bench) {
    const server = await bench.serve();
    const client = new HttpClient(server.base);
    const gantry: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    const floor: Figure & { cpu: number[] } = { samples: [], cpu: [] };
    for (const figure of [gantry, floor]) await turn(server, client, figure);
    for (const figure of [gantry, floor]) figure.samples.length = figure.cpu.length = 0;
    await interleaved([gantry, floor], bench.rounds(12, 3), async (figure) => {
      const session = await begun(client);
      const work = () => turn(server, client, figure, session);
      if (figure === floor) return work();
      for (const characters of await watched(bench, server.base, session, work))
        if (characters !== RUN_TOKENS * WORD + WORD) throw new Error(`a watcher was told ${characters} characters`);
    });
    const memory = memoryOf(server.child).peak.toFixed(0);
    client.close();
    await end(server.child);
    const judged = median(gantry.samples) / median(floor.samples);
    const cpu = `CPU of the server ${mean(gantry.cpu).toFixed(0)} ms, unwatched ${mean(floor.cpu).toFixed(0)} ms`;
    const notes = [`${cpu}; ${memory} MB at most`];
    return [
      {
        row: "watch-20",
        judged,
        gantry: { samples: gantry.samples, cpuMs: mean(gantry.cpu) },
        floor: { samples: floor.samples, cpuMs: mean(floor.cpu) },
        notes,
      },
    ];
  },
};

/** Creates a session with a short turn. Resolves with its id. */
async function begun(client: HttpClient): Promise<string> {
  const { headers } = await client.post("/api/run", { message: "hello" });
  return String(headers["x-session-id"]);
}

async function turn({ child }: Server, client: HttpClient, figure: Figure & { cpu: number[] }, session?: string) {
  const before = cpuOf(child);
  const body = { message: `[tokens=${RUN_TOKENS}]`, stream: true, ...(session && { session_id: session }) };
  const { ms, characters } = await client.stream("/api/run", body, textOfRun);
  if (characters !== RUN_TOKENS * WORD) throw new Error(`${characters} characters of ${RUN_TOKENS * WORD} came`);
  figure.samples.push(ms);
  figure.cpu.push(cpuOf(child) - before);
}
