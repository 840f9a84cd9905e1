// A process that alternates a name between a real folder and a link to another one, as fast as possible. It recreates
// what others delete.
import { lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [, , way = "", parked = "", outside = ""] = process.argv;
const real = `${parked}.real`;
const link = `${parked}.link`;
let running = true;
process.once("message", () => (running = false));

/** File status of a path; undefined if it does not exist. */
const at = (path: string) => lstatSync(path, { throwIfNoEntry: false });

function makeAgain(): void {
  try {
    if (!at(real)?.isDirectory() && !at(way)?.isDirectory()) {
      mkdirSync(join(real, "deep"), { recursive: true });
      for (const name of ["1", "2", "deep/3"]) writeFileSync(join(real, name), "inside");
    }
    if (!at(link) && !at(way)?.isSymbolicLink()) symlinkSync(outside, link);
    const there = at(way);
    if (!there) return;
    if (there.isSymbolicLink() && !at(link)) renameSync(way, link);
    else if (there.isSymbolicLink()) rmSync(way);
    else if (!at(real)) renameSync(way, real);
    else rmSync(way, { recursive: true });
  } catch {
    // A concurrent deletion; the next turn repairs it.
  }
}

/** Some states last a moment, so that each step of the other process meets each state. */
function pauseSometimes(): void {
  if (Math.random() < 0.5) return;
  const end = performance.now() + Math.random() ** 2 * 2;
  while (performance.now() < end);
}

function turn(): void {
  for (let i = 0; i < 50; i++) {
    try {
      renameSync(real, way);
      pauseSometimes();
      renameSync(way, real);
      renameSync(link, way);
      pauseSometimes();
      renameSync(way, link);
    } catch {
      makeAgain();
    }
  }
  if (running) setImmediate(turn);
  else process.disconnect();
}
makeAgain();
process.send?.("ready");
turn();
