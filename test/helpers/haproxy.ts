import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { findFreePort } from "./other-user.js";
import { findProgram } from "./postgres-binaries.js";
import { makeTempDir, type Hooks } from "./temp-dir.js";
import { waitFor } from "./wait.js";

const CONFIG_FILE = fileURLToPath(new URL("../../docs/scaling/haproxy.cfg", import.meta.url));

/** Why tests with HAProxy are skipped; false if HAProxy is installed. */
export const NO_HAPROXY: string | false = findProgram("haproxy")
  ? false
  : "no HAProxy: install it (apt-get install haproxy)";

/** HAProxy with the configuration of the documents. */
export interface HaproxyBalancer {
  /** Origin of the balancer: `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Sends a command to the administration socket. Resolves with HAProxy's answer. */
  sendCommand(command: string): Promise<string>;
  /** Number of requests of each server of a backend until now. */
  readRequestCounts(backend: "api" | "acp"): Promise<Record<string, number>>;
  /** Resolves when `count` servers accept requests. */
  waitForServers(count: number): Promise<void>;
}

/** Starts HAProxy with three replicas, each as `host:port`. HAProxy is stopped after the test. */
export async function startHaproxy(
  hooks: Hooks,
  replicas: readonly [a: string, b: string, c: string],
): Promise<HaproxyBalancer> {
  const folder = await makeTempDir();
  const port = await findFreePort();
  const adminSocket = folder.at("admin.sock");
  const [replicaA, replicaB, replicaC] = replicas;
  const child = spawn(findProgram("haproxy") ?? "haproxy", ["-db", "-f", CONFIG_FILE], {
    env: {
      GANTRY_BIND: `127.0.0.1:${port}`,
      GANTRY_A: replicaA,
      GANTRY_B: replicaB,
      GANTRY_C: replicaC,
      GANTRY_ADMIN: adminSocket,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const closeEvent = once(child, "close");
  hooks.after(async () => {
    child.kill("SIGTERM");
    await closeEvent;
    await folder.remove();
  });
  const sendCommandOnce = (command: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(adminSocket);
      let answer = "";
      socket.setEncoding("utf8").on("data", (text: string) => (answer += text));
      socket.once("error", reject);
      socket.once("end", () => resolve(answer));
      socket.end(`${command}\n`);
    });
  const sendCommand = (command: string): Promise<string> =>
    waitFor(
      `an answer of HAProxy to ${command}`,
      async () => {
        try {
          return await sendCommandOnce(command);
        } catch {
          // HAProxy is not ready yet.
          if (child.exitCode !== null) throw new Error(`HAProxy ended: ${output}`);
          return undefined;
        }
      },
      () => output,
      20,
    );
  const readServerRows = async (backend: string): Promise<Record<string, string>[]> => {
    const [headerLine = "", ...lines] = (await sendCommand("show stat")).replace(/^# /, "").trim().split("\n");
    const names = headerLine.split(",");
    const rows = lines.map((line) => Object.fromEntries(line.split(",").map((value, n) => [names[n] ?? "", value])));
    return rows.filter(({ pxname, svname = "" }) => pxname === backend && /^[abc]$/.test(svname));
  };
  return {
    url: `http://127.0.0.1:${port}`,
    sendCommand,
    readRequestCounts: async (backend) =>
      Object.fromEntries((await readServerRows(backend)).map(({ svname, stot }) => [svname, Number(stot)])),
    async waitForServers(count) {
      let rows: Record<string, string>[] = [];
      await waitFor(
        `${count} servers of HAProxy that are up`,
        async () => {
          rows = await readServerRows("api");
          return rows.filter(({ status }) => status === "UP").length === count || undefined;
        },
        () => `${rows.map(({ svname, status }) => `${svname}: ${status}`).join(", ")}\n${output}`,
        50,
      );
    },
  };
}
