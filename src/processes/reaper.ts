import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { monotonicMs } from "../base/clock.js";
import { MARK } from "../base/linux-processes.js";

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
held=
while read -r mark group; do
  gone=
  if [ "$mark" = - ]; then gone=1 mark=$group; fi
  rest=
  for one in $held; do case $one in "$mark":*) ;; *) rest="$rest $one" ;; esac; done
  held=$rest
  [ -n "$gone" ] || held="$held $mark:$group"
done
[ -n "$held" ] || exit 0
groups=' '
for one in $held; do
  group=\${one##*:}
  if [ "$group" -gt 1 ]; then groups="$groups$group "; kill -STOP "-$group"; fi
done
marked() {
  set --
  for one in $held; do set -- "$@" -e "${MARK}=\${one%%:*}"; done
  found=' '
  for path in $(grep -lF "$@" /proc/[0-9]*/environ); do
    path=\${path#/proc/}
    found="$found\${path%/environ} "
  done
}
if [ -r /proc/self/stat ]; then
  marked
  for pid in $found; do kill -STOP "$pid"; done
  more=1
  while [ -n "$more" ]; do
    more=
    for path in /proc/[0-9]*; do
      pid=\${path#/proc/}
      case $found in *" $pid "*) continue ;; esac
      read -r line < "$path/stat" || continue
      set -- \${line##*) }
      case $found in *" $2 "*) ;; *) case $groups in *" $3 "*) ;; *) continue ;; esac ;; esac
      kill -STOP "$pid"
      found="$found$pid "
      more=1
    done
  done
  for pid in $found; do kill -KILL "$pid"; done
fi
for group in $groups; do kill -KILL "-$group"; done
if [ -r /proc/self/stat ]; then
  marked
  for pid in $found; do kill -KILL "$pid"; done
fi
`;
const PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";

/** Time in ms. A reaper that ran longer was ended from outside and is restarted. */
const MIN_LIFETIME_MS = 1_000;

/** Process group ids by mark, as the reaper must know them. 0: not known yet. */
const groupsByMark = new Map<string, number>();
let reaper: ChildProcess | undefined;

/**
 * Registers a mark before its process starts. Processes with the mark do not outlive this process, however it ends. Has
 * no effect without a shell.
 */
export async function register(mark: string): Promise<void> {
  if (process.platform === "win32") return;
  groupsByMark.set(mark, 0);
  if (reaper === undefined) await start();
  else send(`${mark} 0`);
}

/** Registers the process group of a started process by its mark. */
export function registerGroup(mark: string, group: number): void {
  if (!groupsByMark.has(mark)) return;
  groupsByMark.set(mark, group);
  send(`${mark} ${group}`);
}

/** Removes a mark after all its processes have ended. */
export function unregister(mark: string): void {
  if (groupsByMark.delete(mark)) send(`- ${mark}`);
}

async function start(): Promise<void> {
  const { spawn } = await import("node:child_process");
  if (reaper !== undefined) return;
  // The reaper has its own session, so signals to our session (Ctrl-C, a kill of the group) do not reach it. Its
  // environment contains no secrets.
  const child = spawn("/bin/sh", ["-c", SCRIPT, "gantry-guardian"], {
    cwd: "/",
    env: { PATH },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  reaper = child;
  const since = monotonicMs();
  const onExit = (): void => {
    if (reaper !== child) return;
    reaper = undefined;
    // The reaper was ended from outside: start another with the same entries. A reaper that ended quickly is not
    // restarted, to avoid a loop.
    if (groupsByMark.size > 0 && monotonicMs() - since > MIN_LIFETIME_MS) start().catch(() => undefined);
  };
  child.once("exit", onExit);
  child.once("error", onExit);
  // The exit handler above handles the end of the reaper.
  child.stdin.on("error", () => undefined);
  child.unref();
  // A pipe of a child is a socket.
  (child.stdin as unknown as Socket).unref();
  for (const [mark, group] of groupsByMark) send(`${mark} ${group}`);
}

/** The line has reached the kernel when this returns, unless the pipe is full. */
function send(line: string): void {
  reaper?.stdin?.write(`${line}\n`);
}
