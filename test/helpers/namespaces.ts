import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import type { Hooks } from "./temp.js";

/** Two network namespaces, joined by a cable. Each has a loopback of its own. */
export interface Namespaces {
  /** A command that runs what is appended to it in the first one; its address on the cable. */
  here: readonly string[];
  hereAddress: string;
  /** The same of the other. */
  there: readonly string[];
  thereAddress: string;
}

const HERE = "10.99.0.1";
const THERE = "10.99.0.2";

/**
 * Make them; they are gone with the test, and with this process however it ends: what holds them reads our pipe.
 * Resolves with the reason where this machine allows none.
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
  /** A process in a namespace of its own, which says so and then waits for us to end. */
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
    let said = "";
    holder.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const started = await Promise.race([
      once(holder.stdout, "data").then(() => true),
      once(holder, "close").then(() => false),
      once(holder, "error").then(([error]) => ((said = String(error)), false)),
    ]);
    if (!started) return said.trim() || "no network namespaces here";
    holders.push(holder);
    return ["nsenter", "-t", String(holder.pid), ...(root ? [] : ["-U", "--preserve-credentials"]), "-n", "--"];
  };
  const here = await hold([], root ? ["-n"] : ["-r", "-n"]);
  if (typeof here === "string") return here;
  const there = await hold(root ? [] : here, ["-n"]);
  if (typeof there === "string") return there;
  const [, , pid = ""] = there;
  for (const [place, command] of [
    [here, `ip link add cable0 type veth peer name cable1 netns ${pid}`],
    [here, `ip addr add ${HERE}/24 dev cable0`],
    [here, "ip link set cable0 up"],
    [there, `ip addr add ${THERE}/24 dev cable1`],
    [there, "ip link set cable1 up"],
  ] as const) {
    const [program = "", ...args] = [...place, ...command.split(" ")];
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) return `${command}: ${said.trim()}`;
  }
  return { here, hereAddress: HERE, there, thereAddress: THERE };
}

/**
 * A command that runs what is appended to it, as the same process, on a host of this name: to others its pids say nothing.
 * The reason in its place where this machine allows none.
 */
export function otherHost(name: string): Promise<readonly string[] | string> {
  return unshared("--uts", 'hostname "$0" && exec "$@"', name);
}

/** As `otherHost`, a command for a process to whom a folder is empty, and what is in it not there. */
export function withoutFolder(folder: string): Promise<readonly string[] | string> {
  return unshared("--mount", 'mount -t tmpfs none "$0" && exec "$@"', folder);
}

async function unshared(namespace: string, script: string, name: string): Promise<readonly string[] | string> {
  if (process.platform !== "linux") return "namespaces are Linux's";
  const user = process.getuid?.() === 0 ? [] : ["-r"];
  const through = ["unshare", ...user, namespace, "sh", "-c", script, name];
  const [command = "", ...args] = [...through, "true"];
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const code = await Promise.race([
    once(child, "close").then(([status]) => status as number | null),
    once(child, "error").then(([error]) => ((said = String(error)), null)),
  ]);
  return code === 0 ? through : said.trim() || "no namespaces here";
}
