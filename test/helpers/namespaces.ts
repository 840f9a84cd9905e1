import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import type { Hooks } from "./temp-dir.js";

/** Two connected network namespaces, each with its own loopback. */
export interface Namespaces {
  /** A command prefix that runs a program in the first namespace. */
  firstPrefix: readonly string[];
  firstAddress: string;
  /** A command prefix that runs a program in the second namespace. */
  secondPrefix: readonly string[];
  secondAddress: string;
}

const FIRST_ADDRESS = "10.99.0.1";
const SECOND_ADDRESS = "10.99.0.2";

/**
 * Creates the namespaces. They are removed after the test, and also if this process dies, because the processes that
 * hold the namespaces end with the pipe from this process. Resolves with the reason if this machine permits no
 * namespaces.
 */
export async function createNamespaces(hooks: Hooks): Promise<Namespaces | string> {
  if (process.platform !== "linux") return "only Linux has network namespaces";
  const isRoot = process.getuid?.() === 0;
  const holders: ChildProcessWithoutNullStreams[] = [];
  hooks.after(async () => {
    for (const holder of holders) {
      holder.stdin.end();
      if (holder.exitCode === null && holder.signalCode === null) await once(holder, "close");
    }
  });
  /** Starts a process in its own namespace. The process reports that it is ready, and exits when its input ends. */
  const startHolder = async (
    commandPrefix: readonly string[],
    unshare: readonly string[],
  ): Promise<readonly string[] | string> => {
    const [command = "", ...args] = [
      ...commandPrefix,
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
    const isStarted = await Promise.race([
      once(holder.stdout, "data").then(() => true),
      once(holder, "close").then(() => false),
      once(holder, "error").then(([error]) => ((errorOutput = String(error)), false)),
    ]);
    if (!isStarted) return errorOutput.trim() || "no network namespaces here";
    holders.push(holder);
    return ["nsenter", "-t", String(holder.pid), ...(isRoot ? [] : ["-U", "--preserve-credentials"]), "-n", "--"];
  };
  const firstPrefix = await startHolder([], isRoot ? ["-n"] : ["-r", "-n"]);
  if (typeof firstPrefix === "string") return firstPrefix;
  const secondPrefix = await startHolder(isRoot ? [] : firstPrefix, ["-n"]);
  if (typeof secondPrefix === "string") return secondPrefix;
  const [, , pid = ""] = secondPrefix;
  for (const [prefix, command] of [
    [firstPrefix, `ip link add cable0 type veth peer name cable1 netns ${pid}`],
    [firstPrefix, `ip addr add ${FIRST_ADDRESS}/24 dev cable0`],
    [firstPrefix, "ip link set cable0 up"],
    [secondPrefix, `ip addr add ${SECOND_ADDRESS}/24 dev cable1`],
    [secondPrefix, "ip link set cable1 up"],
  ] as const) {
    const [program = "", ...args] = [...prefix, ...command.split(" ")];
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    let errorOutput = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errorOutput += text));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) return `${command}: ${errorOutput.trim()}`;
  }
  return { firstPrefix, firstAddress: FIRST_ADDRESS, secondPrefix, secondAddress: SECOND_ADDRESS };
}

/**
 * A command prefix that runs a program, as the same process, on a host with this name, so that the process seems to run
 * on another host. Resolves with the reason if this machine permits no namespaces.
 */
export function createHostPrefix(name: string): Promise<readonly string[] | string> {
  return createNamespacePrefix("--uts", 'hostname "$0" && exec "$@"', name);
}

/** Like `createHostPrefix`, but the process sees a folder as empty. */
export function createHiddenFolderPrefix(folder: string): Promise<readonly string[] | string> {
  return createNamespacePrefix("--mount", 'mount -t tmpfs none "$0" && exec "$@"', folder);
}

async function createNamespacePrefix(
  namespace: string,
  script: string,
  name: string,
): Promise<readonly string[] | string> {
  if (process.platform !== "linux") return "only Linux has namespaces";
  const user = process.getuid?.() === 0 ? [] : ["-r"];
  const prefix = ["unshare", ...user, namespace, "sh", "-c", script, name];
  const [command = "", ...args] = [...prefix, "true"];
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  let errorOutput = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errorOutput += text));
  const code = await Promise.race([
    once(child, "close").then(([status]) => status as number | null),
    once(child, "error").then(([error]) => ((errorOutput = String(error)), null)),
  ]);
  return code === 0 ? prefix : errorOutput.trim() || "no namespaces here";
}
