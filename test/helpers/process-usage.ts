import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { WebSocket } from "ws";
import type { GantryProcess } from "./server.js";

/** Environment of a process that `measureProcess` measures: the inspector can collect garbage. */
export const INSPECTOR_ENV = { NODE_OPTIONS: "--inspect=127.0.0.1:0" };

/** Use of resources by a process (Linux). */
export interface ProcessUsage {
  /** JavaScript heap and external memory after a garbage collection, in MB. */
  heapMb: number;
  /** Resident memory after the garbage collection, in MB. */
  rssMb: number;
  descriptors: number;
  /** Number of processes below this process, at any depth. */
  children: number;
}

/** Measures a process that was started with `INSPECTOR_ENV`. */
export async function measureProcess(gantry: GantryProcess): Promise<ProcessUsage> {
  const [, url = ""] = await gantry.waitForOutput(/Debugger listening on (ws:\S+)/, "stderr");
  const socket = new WebSocket(url);
  await once(socket, "open");
  const send = async (id: number, method: string, params = {}): Promise<string> => {
    socket.send(JSON.stringify({ id, method, params }));
    const [data] = (await once(socket, "message")) as [Buffer];
    return data.toString();
  };
  // The finalizers of one collection release further objects.
  for (let id = 1; id <= 3; id++) await send(id, "HeapProfiler.collectGarbage");
  const expression = "(({ heapUsed, external, rss }) => `${heapUsed + external} ${rss}`)(process.memoryUsage())";
  const [, heapBytes, rssBytes] = /"(\d+) (\d+)"/.exec(await send(4, "Runtime.evaluate", { expression })) ?? [];
  socket.close();
  await once(socket, "close");
  return {
    heapMb: Number(heapBytes) / 1024 / 1024,
    rssMb: Number(rssBytes) / 1024 / 1024,
    descriptors: (await readdir(`/proc/${gantry.pid}/fd`)).length,
    children: await countChildren(gantry.pid),
  };
}

async function countChildren(pid: number | string): Promise<number> {
  const folder = `/proc/${pid}/task`;
  const threads = await readdir(folder).catch(() => []);
  const texts = await Promise.all(threads.map((id) => readFile(`${folder}/${id}/children`, "utf8").catch(() => "")));
  const pids = texts.flatMap((text) => text.split(" ").filter((id) => id !== ""));
  return (await Promise.all(pids.map(countChildren))).reduce((sum, count) => sum + count, pids.length);
}

/** Heap and external memory of this process after a garbage collection, in MB. */
export function measureOwnHeapMb(): number {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  for (let n = 0; n < 3; n++) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1024 / 1024;
}
