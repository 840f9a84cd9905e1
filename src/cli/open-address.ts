import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import type { ServerResponse } from "node:http";
import { answer } from "../http/answers.js";
import { isTrustedClient } from "../http/connection-owner.js";
import type { Refusal } from "../ports/http-host.js";
import { getEnvironmentVariable } from "../serve/environment.js";

/** An opener that still runs after this time counts as successful. */
const OPENER_TIMEOUT_MS = 3_000;
/** Time for the browser to fetch the redirect, in ms. */
const HANDOVER_TIMEOUT_MS = 20_000;

const FORBIDDEN_REFUSAL: Refusal = { status: 403, message: "forbidden", code: "forbidden" };
const REDIRECT_RESPONSE = { status: 302, message: "continue there", code: "found" };

/** Opens an address in the platform's browser. Resolves with false if no browser was found or the start failed. */
export async function openAddress(address: string): Promise<boolean> {
  const [command, ...args] = findOpenerCommand();
  return command !== undefined && runOpener(command, [...args, address]);
}

/**
 * Opens an address that contains a secret. All users of the machine can read the arguments of a process, so the address
 * must not be an argument.
 *
 * Resolves with false if the address could not be opened safely.
 */
export async function openSecretAddress(address: string): Promise<boolean> {
  if (process.platform === "linux") return openThroughRedirect(address);
  if (process.platform === "darwin") return runOpener("osascript", [], `open location ${JSON.stringify(address)}\n`);
  // Windows does not show the arguments of a process to other users.
  return openAddress(address);
}

/**
 * Opens the address of a temporary local server. The server redirects to the secret address once, and only for a
 * process of this user or of root.
 */
async function openThroughRedirect(address: string): Promise<boolean> {
  const { openHttpHost } = await import("../http/http-host.js");
  const path = `/${randomBytes(16).toString("base64url")}`;
  const timeoutSignal = AbortSignal.timeout(HANDOVER_TIMEOUT_MS);
  const events = new EventEmitter();
  const handover = once(events, "redirected", { signal: timeoutSignal }).then(
    () => true,
    () => false,
  );
  let isHandedOver = false;
  const refuse = (response: ServerResponse) => answer(response, FORBIDDEN_REFUSAL);
  const host = openHttpHost({ port: 0 });
  const origin = await host.mount({
    prefix: "/",
    fallback: false,
    authenticated: false,
    handler: (request, response) => {
      if (request.url !== path || request.method !== "GET") return refuse(response);
      // A client whose user cannot be determined is refused.
      void isTrustedClient(request.socket).then((isTrusted) => {
        if (!isTrusted || isHandedOver) return refuse(response);
        isHandedOver = true;
        response.on("close", () => events.emit("redirected"));
        answer(response, { ...REDIRECT_RESPONSE, headers: { Location: address, "Cache-Control": "no-store" } });
      });
    },
    refuse: (_request, response) => refuse(response),
  });
  try {
    return (await openAddress(origin + path)) && (await handover);
  } finally {
    await host.close(AbortSignal.abort());
  }
}

/**
 * Runs a command. Resolves with true if the command exits with code 0, or still runs after `OPENER_TIMEOUT_MS`, as a
 * browser does. Never rejects.
 */
async function runOpener(command: string, args: readonly string[], input?: string): Promise<boolean> {
  const stdio = [input === undefined ? "ignore" : "pipe", "ignore", "ignore"] as const;
  const child = spawn(command, args, { stdio: [...stdio], detached: true, windowsHide: true });
  child.stdin?.on("error", () => undefined).end(input);
  let timer: NodeJS.Timeout | undefined;
  const openerTimeout = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(true), OPENER_TIMEOUT_MS)));
  const exitResult = once(child, "exit").then(
    ([code]) => code === 0,
    () => false,
  );
  const isOpened = await Promise.race([exitResult, openerTimeout]);
  clearTimeout(timer);
  child.unref();
  return isOpened;
}

function findOpenerCommand(): readonly string[] {
  if (process.platform === "darwin") return ["open"];
  if (process.platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  // Without a display, xdg-open would start a text browser in the terminal.
  return getEnvironmentVariable("DISPLAY") ||
    getEnvironmentVariable("WAYLAND_DISPLAY") ||
    getEnvironmentVariable("BROWSER")
    ? ["xdg-open"]
    : [];
}
