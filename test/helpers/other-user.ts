import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, chownSync, constants, mkdtempSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Hooks } from "./temp-dir.js";

/** Why tests with a second user are skipped; false if they can run. */
export const NO_OTHER_USER: string | false =
  (process.platform !== "linux" && "only Linux identifies the user of a connection") ||
  (process.getuid?.() !== 0 && "only root can become another user");

/**
 * The user for programs that refuse to run as root: the user that packages create, or the user `nobody`. Undefined if this
 * process is not root.
 */
export function findOtherUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "_postgres", "nobody"]) {
    const line = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((entry) => entry.startsWith(`${name}:`));
    const [, , uid, gid] = line?.split(":") ?? [];
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error("this program refuses to run as root, and there is neither a user postgres nor nobody");
}

/**
 * Creates a temporary folder that the user owns; the caller removes the folder. Its path is short enough for Unix
 * sockets.
 */
export function createFolderFor(user: { uid: number; gid: number } | undefined): string {
  const parentFolder = [tmpdir(), "/tmp", "/var/tmp"].find((candidate) => user === undefined || isOpenToAll(candidate));
  if (!parentFolder) throw new Error("there is no temporary folder that another user can enter");
  const userFolder = mkdtempSync(path.join(realpathSync(parentFolder), "gt-pg-"));
  if (user) chownSync(userFolder, user.uid, user.gid);
  return userFolder;
}

/** Whether another user can enter a folder and all its parents. */
function isOpenToAll(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    for (let parent = realpathSync(folder); ; parent = path.dirname(parent)) {
      if ((statSync(parent).mode & 0o001) === 0) return false;
      if (parent === path.dirname(parent)) return true;
    }
  } catch {
    return false;
  }
}

/** A free port of 127.0.0.1. */
export async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address ? address.port : 0;
}

/**
 * Starts a process of another user that replaces a server. Resolves with the URL of that process, and with a function
 * that reads the requests that the process received, a line each.
 */
export async function startForeignServer(
  hooks: Hooks,
  requestedPort = 0,
): Promise<{ url: string; readRequests: () => Promise<string> }> {
  const program = `
    let requestLog = "";
    require("node:http").createServer((request, response) => {
      if (request.url === "/request-log") return response.end(requestLog);
      requestLog += request.method + " " + request.url + " " + request.headers["x-key"] + "\\n";
      response.end(JSON.stringify({ path: "/console" }));
    }).listen(${requestedPort}, "127.0.0.1", function () { process.stdout.write(String(this.address().port)); });`;
  const child = spawn(process.execPath, ["-e", program], {
    // The user `nobody`.
    uid: 65_534,
    cwd: "/",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closeEvent = once(child, "close");
  hooks.after(async () => {
    child.kill();
    await closeEvent;
  });
  const [port] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
  const url = `http://127.0.0.1:${port}`;
  return { url, readRequests: async () => (await fetch(`${url}/request-log`)).text() };
}

/** Sends a GET request from a process of a user. Resolves with the status of the response. */
export async function requestAsUser(uid: number, host: string, port: string, requestPath = "/"): Promise<number> {
  const program = `
    require("node:http").get({ host: process.argv[1], port: process.argv[2], path: process.argv[3] }, (response) =>
      response.resume().on("end", () => process.stdout.write(String(response.statusCode))));`;
  const child = spawn(process.execPath, ["-e", program, host, port, requestPath], {
    uid,
    cwd: "/",
    stdio: ["ignore", "pipe", "inherit"],
  });
  let status = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (status += text));
  await once(child, "close");
  return Number(status);
}
