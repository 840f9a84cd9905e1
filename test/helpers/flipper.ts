// A process that makes a name mean a real folder and a link to another one by turns, as fast as it can; what somebody
// deletes meanwhile it makes again.
import { lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [, , way = "", parked = "", outside = ""] = process.argv;
const real = `${parked}.real`;
const link = `${parked}.link`;
let running = true;
process.once("message", () => (running = false));

/** Whatever is there; undefined for nothing. */
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
    // Deleted just now; the next turn sees to it.
  }
}

/** Sometimes a state lasts a moment, so that each step of the other side meets each of them. */
function rest(): void {
  if (Math.random() < 0.5) return;
  const end = performance.now() + Math.random() ** 2 * 2;
  while (performance.now() < end);
}

function turn(): void {
  for (let i = 0; i < 50; i++) {
    try {
      renameSync(real, way);
      rest();
      renameSync(way, real);
      renameSync(link, way);
      rest();
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
