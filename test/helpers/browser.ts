import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { makeTempDir, type Hooks } from "./temp-dir.js";

export type BrowserName = "firefox" | "chromium";

const PROGRAM_NAMES: Readonly<Record<BrowserName, readonly string[]>> = {
  firefox: ["firefox-esr", "firefox"],
  chromium: ["chromium", "chromium-browser"],
};

/** Path of a browser; undefined if it is not installed. */
export function findBrowser(name: BrowserName): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return PROGRAM_NAMES[name]
    .flatMap((program) => folders.map((folder) => join(folder, program)))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/**
 * Opens a page in a headless browser with a new profile. After the test, the browser is killed and the profile is
 * removed. `ended` rejects if the browser exits earlier.
 */
export async function openBrowser(
  hooks: Hooks,
  name: BrowserName,
  page: string,
  /**
   * `commandPrefix`: a command that runs the browser, or empty. `loopbackName`: a host name that resolves to 127.0.0.1.
   */
  options: { commandPrefix: readonly string[]; loopbackName: string },
): Promise<{ ended: Promise<never> }> {
  const program = findBrowser(name);
  if (program === undefined) throw new Error(`there is no ${name}`);
  const profile = await makeTempDir();
  const [command = "", ...args] = [
    ...options.commandPrefix,
    program,
    ...(await createFlags(name, profile, options.loopbackName)),
    page,
  ];
  const child = spawn(command, args, {
    // In its own process group, so that its child processes end with it.
    detached: true,
    stdio: "ignore",
    env: { PATH: process.env.PATH, HOME: profile.path, TMPDIR: profile.path, LANG: "C.UTF-8" },
  });
  const closeEvent = once(child, "close");
  hooks.after(async () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // The browser has already exited.
    }
    await closeEvent;
    await profile.remove();
  });
  const ended = closeEvent.then(([code, signal]) => {
    throw new Error(`${program} exited unexpectedly (${String(code ?? signal)})`);
  });
  ended.catch(() => undefined);
  return { ended };
}

async function createFlags(
  name: BrowserName,
  profile: { path: string; write(files: Record<string, string>): Promise<void> },
  loopbackName: string,
): Promise<string[]> {
  if (name === "chromium")
    return [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // Chromium's own protection of local addresses is not under test, and other versions have none.
      "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests",
      `--host-resolver-rules=MAP ${loopbackName} 127.0.0.1`,
      `--user-data-dir=${profile.path}`,
    ];
  const preferences = {
    "network.dns.localDomains": loopbackName,
    // Firefox's own protection of the address 0.0.0.0 is not under test, and other versions have none.
    "network.socket.ip_addr_any.disabled": false,
    "browser.shell.checkDefaultBrowser": false,
    "datareporting.policy.dataSubmissionEnabled": false,
    "app.update.enabled": false,
    "browser.aboutwelcome.enabled": false,
    "browser.startup.homepage_override.mstone": "ignore",
    "network.captive-portal-service.enabled": false,
    "network.connectivity-service.enabled": false,
    "browser.startup.page": 0,
    "toolkit.startup.max_resumed_crashes": -1,
  };
  const lines = Object.entries(preferences).map(
    ([key, value]) => `user_pref(${JSON.stringify(key)}, ${JSON.stringify(value)});`,
  );
  await profile.write({ "user.js": `${lines.join("\n")}\n` });
  return ["--headless", "--no-remote", "--profile", profile.path];
}
