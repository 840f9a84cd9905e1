// A process that swaps a path between a real folder and a symbolic link to another folder, as fast as possible. It
// recreates entries that other processes delete. Usage: <swapped path> <parking path> <outside folder>
import { lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [, , swappedPath = "", parkingPath = "", outsideFolder = ""] = process.argv;
const realFolder = `${parkingPath}.real`;
const link = `${parkingPath}.link`;
let isRunning = true;
process.once("message", () => (isRunning = false));

/** File status of a path; undefined if it does not exist. */
const readStatus = (path: string) => lstatSync(path, { throwIfNoEntry: false });

function restoreEntries(): void {
  try {
    if (!readStatus(realFolder)?.isDirectory() && !readStatus(swappedPath)?.isDirectory()) {
      mkdirSync(join(realFolder, "deep"), { recursive: true });
      for (const name of ["1", "2", "deep/3"]) writeFileSync(join(realFolder, name), "inside");
    }
    if (!readStatus(link) && !readStatus(swappedPath)?.isSymbolicLink()) symlinkSync(outsideFolder, link);
    const swappedStatus = readStatus(swappedPath);
    if (!swappedStatus) return;
    if (swappedStatus.isSymbolicLink() && !readStatus(link)) renameSync(swappedPath, link);
    else if (swappedStatus.isSymbolicLink()) rmSync(swappedPath);
    else if (!readStatus(realFolder)) renameSync(swappedPath, realFolder);
    else rmSync(swappedPath, { recursive: true });
  } catch {
    // An entry was deleted concurrently; the next call restores the entry.
  }
}

/** Waits up to 2 ms in half of the calls, so that each step of the other process meets each state. */
function pauseSometimes(): void {
  if (Math.random() < 0.5) return;
  const endMs = performance.now() + Math.random() ** 2 * 2;
  while (performance.now() < endMs);
}

function swapRepeatedly(): void {
  // Between two batches, the event loop can receive the message that ends this process.
  for (let i = 0; i < 50; i++) {
    try {
      renameSync(realFolder, swappedPath);
      pauseSometimes();
      renameSync(swappedPath, realFolder);
      renameSync(link, swappedPath);
      pauseSometimes();
      renameSync(swappedPath, link);
    } catch {
      restoreEntries();
    }
  }
  if (isRunning) setImmediate(swapRepeatedly);
  else process.disconnect();
}
restoreEntries();
process.send?.("ready");
swapRepeatedly();
