import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { monotonicMs } from "../base/clock.js";
import { MARK_VARIABLE } from "../base/linux-processes.js";

/**
 * Shell script of the reaper. It kills the registered process groups when this process ends.
 *
 * Input: each line contains a mark and a process group id, 0 while unknown. `- MARK` removes an entry. The pipe ends
 * when this process ends for any reason, including kill -9.
 *
 * The script then stops all registered processes first, so that they start no further process and none loses its
 * parent. After that it kills them with their descendants. Without /proc or grep it kills only the process groups.
 */
const SCRIPT = `
trap '' HUP INT TERM
entries=
while read -r mark group; do
  isRemoval=
  if [ "$mark" = - ]; then isRemoval=1 mark=$group; fi
  otherEntries=
  for entry in $entries; do case $entry in "$mark":*) ;; *) otherEntries="$otherEntries $entry" ;; esac; done
  entries=$otherEntries
  [ -n "$isRemoval" ] || entries="$entries $mark:$group"
done
[ -n "$entries" ] || exit 0
groups=' '
for entry in $entries; do
  group=\${entry##*:}
  if [ "$group" -gt 1 ]; then groups="$groups$group "; kill -STOP "-$group"; fi
done
findMarked() {
  set --
  for entry in $entries; do set -- "$@" -e "${MARK_VARIABLE}=\${entry%%:*}"; done
  markedPids=' '
  for path in $(grep -lF "$@" /proc/[0-9]*/environ); do
    path=\${path#/proc/}
    markedPids="$markedPids\${path%/environ} "
  done
}
if [ -r /proc/self/stat ]; then
  findMarked
  for pid in $markedPids; do kill -STOP "$pid"; done
  hasFound=1
  while [ -n "$hasFound" ]; do
    hasFound=
    for path in /proc/[0-9]*; do
      pid=\${path#/proc/}
      case $markedPids in *" $pid "*) continue ;; esac
      read -r line < "$path/stat" || continue
      set -- \${line##*) }
      case $markedPids in *" $2 "*) ;; *) case $groups in *" $3 "*) ;; *) continue ;; esac ;; esac
      kill -STOP "$pid"
      markedPids="$markedPids$pid "
      hasFound=1
    done
  done
  for pid in $markedPids; do kill -KILL "$pid"; done
fi
for group in $groups; do kill -KILL "-$group"; done
if [ -r /proc/self/stat ]; then
  findMarked
  for pid in $markedPids; do kill -KILL "$pid"; done
fi
`;
const SHELL_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";

/** Minimum lifetime in ms of a reaper that is restarted after its end. */
const MIN_LIFETIME_MS = 1_000;

/** Process group ids by mark, as the reaper must know them. 0: not known yet. */
const groupsByMark = new Map<string, number>();
let reaper: ChildProcess | undefined;

/**
 * Registers a mark before its process starts. Processes with the mark do not outlive this process, however it ends. Has
 * no effect without a shell.
 */
export async function registerMark(mark: string): Promise<void> {
  if (process.platform === "win32") return;
  groupsByMark.set(mark, 0);
  if (reaper === undefined) await startReaper();
  else sendLine(`${mark} 0`);
}

/** Registers the process group of a started process by its mark. */
export function registerGroup(mark: string, groupId: number): void {
  if (!groupsByMark.has(mark)) return;
  groupsByMark.set(mark, groupId);
  sendLine(`${mark} ${groupId}`);
}

/** Removes a mark after all its processes have ended. */
export function unregisterMark(mark: string): void {
  if (groupsByMark.delete(mark)) sendLine(`- ${mark}`);
}

async function startReaper(): Promise<void> {
  const { spawn } = await import("node:child_process");
  if (reaper !== undefined) return;
  // The reaper has its own session, so signals to our session (Ctrl-C, a kill of the group) do not reach it. Its
  // environment contains no secrets.
  const child = spawn("/bin/sh", ["-c", SCRIPT, "gantry-guardian"], {
    cwd: "/",
    env: { PATH: SHELL_PATH },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  reaper = child;
  const startedMs = monotonicMs();
  const onExit = (): void => {
    if (reaper !== child) return;
    reaper = undefined;
    // The reaper was ended from outside: start another with the same entries. A reaper that ended quickly is not
    // restarted, to avoid a loop.
    if (groupsByMark.size > 0 && monotonicMs() - startedMs > MIN_LIFETIME_MS) startReaper().catch(() => undefined);
  };
  child.once("exit", onExit);
  child.once("error", onExit);
  // The exit handler above handles the end of the reaper.
  child.stdin.on("error", () => undefined);
  child.unref();
  // A pipe of a child is a socket.
  (child.stdin as unknown as Socket).unref();
  for (const [mark, groupId] of groupsByMark) sendLine(`${mark} ${groupId}`);
}

/** Sends a line. The line has reached the kernel when this function returns, unless the pipe is full. */
function sendLine(line: string): void {
  reaper?.stdin?.write(`${line}\n`);
}
