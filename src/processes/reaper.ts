import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { ticks } from "../base/clock.js";
import { MARK } from "../base/linux-processes.js";

/**
 * What the guardian does. Each line that it reads says a mark and the number of a process group, 0 while that is not
 * known; `- MARK` forgets one. The pipe ends with the process that holds its other end, however that ends: by kill -9,
 * too. Then what is known is stopped first, so that it starts nothing more and nobody loses his parent, and killed with
 * all that came of it. Where there is no /proc, or no grep, it is the groups alone.
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

/** A guardian that lived so long, in ms, was ended by somebody. */
const LIVED_MS = 1_000;

/** What the guardian must know, by mark. */
const guarded = new Map<string, number>();
let guardian: ChildProcess | undefined;

/**
 * From now on what carries this mark does not outlive this process, however that ends. Called before it is started; nothing
 * comes of it where there is no shell.
 */
export async function guard(mark: string): Promise<void> {
  if (process.platform === "win32") return;
  guarded.set(mark, 0);
  if (guardian === undefined) await start();
  else tell(`${mark} 0`);
}

/** The process group of what was started with the mark. */
export function guardGroup(mark: string, group: number): void {
  if (!guarded.has(mark)) return;
  guarded.set(mark, group);
  tell(`${mark} ${group}`);
}

/** Nothing of it is left. */
export function unguard(mark: string): void {
  if (guarded.delete(mark)) tell(`- ${mark}`);
}

async function start(): Promise<void> {
  const { spawn } = await import("node:child_process");
  if (guardian !== undefined) return;
  // In a session of its own: what is said to ours (Ctrl-C, a kill of the group) is not for it. It knows no secret.
  const child = spawn("/bin/sh", ["-c", SCRIPT, "gantry-guardian"], {
    cwd: "/",
    env: { PATH },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guardian = child;
  const since = ticks();
  const gone = (): void => {
    if (guardian !== child) return;
    guardian = undefined;
    // Somebody ended it: what it knew the next one must know. One that cannot live is not started again and again.
    if (guarded.size > 0 && ticks() - since > LIVED_MS) start().catch(() => undefined);
  };
  child.once("exit", gone);
  child.once("error", gone);
  // Its end is told above.
  child.stdin.on("error", () => undefined);
  child.unref();
  // A pipe of a child is a socket.
  (child.stdin as unknown as Socket).unref();
  for (const [mark, group] of guarded) tell(`${mark} ${group}`);
}

/** On its way to the kernel when this returns, unless the pipe is full. */
function tell(line: string): void {
  guardian?.stdin?.write(`${line}\n`);
}
