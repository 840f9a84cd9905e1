// The row of a run that others watch: the same run beside it, unwatched.
import { once } from "node:events";
import { interleaved, beside, lineOf, type Bench, type Figure, type Scenario, type Server } from "./bench.js";
import { HttpClient, textOfRun } from "./http-client.js";
import { cpuOf, memoryOf, end, start } from "./processes.js";
import { mean, median } from "./statistics.js";

const LONG = 20_000;
const WATCHERS = 20;
/** Characters of a word of the model's. */
const WORD = 5;

/** What those who watch have read when they are ended, in characters of answers; who is slow is not among them. */
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
  // What is told last comes within the time that hints take.
  await new Promise((resolve) => setTimeout(resolve, 500));
  child.stdin?.end();
  await closed;
  await end(child);
  return (JSON.parse(output.trim().split("\n").at(-1) ?? "") as { characters: number[] }).characters;
}

/** 20,000 tokens that 20 others watch, one of them at a byte a second, beside the same that nobody watches. */
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
        if (characters !== LONG * WORD + WORD) throw new Error(`a watcher was told ${characters} characters`);
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

/** A session with a short turn. */
async function begun(client: HttpClient): Promise<string> {
  const { headers } = await client.post("/api/run", { message: "hello" });
  return String(headers["x-session-id"]);
}

async function turn({ child }: Server, client: HttpClient, figure: Figure & { cpu: number[] }, session?: string) {
  const before = cpuOf(child);
  const body = { message: `[tokens=${LONG}]`, stream: true, ...(session && { session_id: session }) };
  const { ms, characters } = await client.stream("/api/run", body, textOfRun);
  if (characters !== LONG * WORD) throw new Error(`${characters} characters of ${LONG * WORD} came`);
  figure.samples.push(ms);
  figure.cpu.push(cpuOf(child) - before);
}
