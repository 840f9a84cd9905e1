import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { makeTempDir, type Hooks } from "./temp.js";

export type BrowserName = "firefox" | "chromium";

const PROGRAMS: Readonly<Record<BrowserName, readonly string[]>> = {
  firefox: ["firefox-esr", "firefox"],
  chromium: ["chromium", "chromium-browser"],
};

/** Where a browser is; undefined where there is none. */
export function findBrowser(name: BrowserName): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return PROGRAMS[name]
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
 * Open a page in a browser without a window and with a fresh profile; it is gone, with its profile, after the test.
 * `ended` rejects when the browser goes by itself, which it must not.
 */
export async function openBrowser(
  hooks: Hooks,
  name: BrowserName,
  page: string,
  /** `through`: a command that runs it. `loopbackName`: a name that leads to 127.0.0.1. */
  options: { through: readonly string[]; loopbackName: string },
): Promise<{ ended: Promise<never> }> {
  const program = findBrowser(name);
  if (program === undefined) throw new Error(`there is no ${name}`);
  const profile = await makeTempDir();
  const [command = "", ...args] = [
    ...options.through,
    program,
    ...(await flags(name, profile, options.loopbackName)),
    page,
  ];
  const child = spawn(command, args, {
    // Of its own group, so that what it starts ends with it.
    detached: true,
    stdio: "ignore",
    env: { PATH: process.env.PATH, HOME: profile.path, TMPDIR: profile.path, LANG: "C.UTF-8" },
  });
  const closed = once(child, "close");
  hooks.after(async () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
    await closed;
    await profile.remove();
  });
  const ended = closed.then(([code, signal]) => {
    throw new Error(`${program} ended by itself (${String(code ?? signal)})`);
  });
  ended.catch(() => undefined);
  return { ended };
}

async function flags(
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
      // Its own guard of local addresses is not what is tested, and other versions have none.
      "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests",
      `--host-resolver-rules=MAP ${loopbackName} 127.0.0.1`,
      `--user-data-dir=${profile.path}`,
    ];
  const preferences = {
    "network.dns.localDomains": loopbackName,
    // Its own guard of such addresses is not what is tested, and other versions have none.
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
