import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import type { Hooks } from "./temp.js";

/** Two connected network namespaces, each with its own loopback. */
export interface Namespaces {
  /** A command prefix that runs a program in the first namespace, and its address. */
  first: readonly string[];
  firstAddress: string;
  /** The same for the second namespace. */
  second: readonly string[];
  secondAddress: string;
}

const HERE = "10.99.0.1";
const THERE = "10.99.0.2";

/**
 * Creates the namespaces. They are removed after the test, and also if this process dies: their holders read its pipe.
 * Resolves with the reason if this machine does not permit them.
 */
export async function twoNamespaces(hooks: Hooks): Promise<Namespaces | string> {
  if (process.platform !== "linux") return "network namespaces are Linux's";
  const root = process.getuid?.() === 0;
  const holders: ChildProcessWithoutNullStreams[] = [];
  hooks.after(async () => {
    for (const holder of holders) {
      holder.stdin.end();
      if (holder.exitCode === null && holder.signalCode === null) await once(holder, "close");
    }
  });
  /** Starts a process in its own namespace. The process reports that it is ready, and exits when its input ends. */
  const hold = async (through: readonly string[], unshare: readonly string[]): Promise<readonly string[] | string> => {
    const [command = "", ...args] = [
      ...through,
      "unshare",
      ...unshare,
      "sh",
      "-c",
      "ip link set lo up && echo ready && exec cat",
    ];
    const holder = spawn(command, args, { stdio: "pipe" });
    holder.stdin.on("error", () => undefined);
    let errorOutput = "";
    holder.stderr.setEncoding("utf8").on("data", (text: string) => (errorOutput += text));
    const started = await Promise.race([
      once(holder.stdout, "data").then(() => true),
      once(holder, "close").then(() => false),
      once(holder, "error").then(([error]) => ((errorOutput = String(error)), false)),
    ]);
    if (!started) return errorOutput.trim() || "no network namespaces here";
    holders.push(holder);
    return ["nsenter", "-t", String(holder.pid), ...(root ? [] : ["-U", "--preserve-credentials"]), "-n", "--"];
  };
  const first = await hold([], root ? ["-n"] : ["-r", "-n"]);
  if (typeof first === "string") return first;
  const there = await hold(root ? [] : first, ["-n"]);
  if (typeof there === "string") return there;
  const [, , pid = ""] = there;
  for (const [place, command] of [
    [first, `ip link add cable0 type veth peer name cable1 netns ${pid}`],
    [first, `ip addr add ${HERE}/24 dev cable0`],
    [first, "ip link set cable0 up"],
    [there, `ip addr add ${THERE}/24 dev cable1`],
    [there, "ip link set cable1 up"],
  ] as const) {
    const [program = "", ...args] = [...place, ...command.split(" ")];
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    let errorOutput = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errorOutput += text));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) return `${command}: ${errorOutput.trim()}`;
  }
  return { first, firstAddress: HERE, second: there, secondAddress: THERE };
}

/**
 * A command prefix that runs a program, as the same process, on a host with this name: its pids then mean nothing to
 * other hosts. Resolves with the reason if this machine does not permit it.
 */
export function otherHost(name: string): Promise<readonly string[] | string> {
  return unshared("--uts", 'hostname "$0" && exec "$@"', name);
}

/** Like `otherHost`: a command prefix for a process that sees a folder as empty. */
export function withoutFolder(folder: string): Promise<readonly string[] | string> {
  return unshared("--mount", 'mount -t tmpfs none "$0" && exec "$@"', folder);
}

async function unshared(namespace: string, script: string, name: string): Promise<readonly string[] | string> {
  if (process.platform !== "linux") return "namespaces are Linux's";
  const user = process.getuid?.() === 0 ? [] : ["-r"];
  const through = ["unshare", ...user, namespace, "sh", "-c", script, name];
  const [command = "", ...args] = [...through, "true"];
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  let errorOutput = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errorOutput += text));
  const code = await Promise.race([
    once(child, "close").then(([status]) => status as number | null),
    once(child, "error").then(([error]) => ((errorOutput = String(error)), null)),
  ]);
  return code === 0 ? through : errorOutput.trim() || "no namespaces here";
}
