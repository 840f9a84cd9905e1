import { createServer } from "node:net";
import { once } from "node:events";
import { createDeadline } from "../../base/abort.js";
import { isRecord } from "../../base/json.js";
import { REQUEST_ID_HEADER } from "../../http/request-fields.js";
import { authenticates, isLoopback } from "../../http/web-safety.js";
import { Selection } from "../../serve/selected-adapters.js";
import { createCheckedFetch } from "../server-check.js";
import {
  createError,
  createOk,
  createWarning,
  toReason,
  type DoctorCheck,
  type DoctorContext,
  type Finding,
} from "./finding.js";

const HEALTH_TIMEOUT_MS = 2_000;
const AUTHENTICATE =
  "set server.tokens, or server.required_headers to a header with a secret value, or bind to 127.0.0.1";

/** The clients that can reach the server, and whether they authenticate. */
export const exposureCheck: DoctorCheck = {
  group: "Exposure",
  run: async (context) => {
    const names = attemptNames(context);
    if (names.every((name) => name === "acp-stdio" || name === "mcp-stdio"))
      return [createOk("exposure.bind", "only the process that starts gantry can use it")];
    return [checkBind(context, names), ...checkBlankHeaders(context), await checkPort(context)];
  },
};

function attemptNames({ loadedConfig, home }: DoctorContext): string[] {
  try {
    return new Selection(loadedConfig, home).transports().map(({ name }) => name);
  } catch {
    // The check of the adapters reports the error.
    return ["koa-http-api"];
  }
}

/** Whether a client on another machine can reach the server and needs no secret. */
export function isOpenToOthers({ loadedConfig: { config } }: Pick<DoctorContext, "loadedConfig">): boolean {
  return (
    !isLoopbackHost(config.server.host) && !hasUsers(config.server) && !authenticates(config.server.requiredHeaders)
  );
}

function hasUsers({ tokens, trustedUserHeader }: DoctorContext["loadedConfig"]["config"]["server"]): boolean {
  return tokens !== "" || trustedUserHeader !== "";
}

function isLoopbackHost(host: string): boolean {
  return host === "localhost" || isLoopback(host.replace(/^\[(.*)\]$/, "$1"));
}

function checkBind({ loadedConfig }: DoctorContext, names: readonly string[]): Finding {
  const { host, requiredHeaders, insecure } = loadedConfig.config.server;
  const authenticatesAcp = hasUsers(loadedConfig.config.server) || !names.includes("acp-http-sse-ws");
  const hasAuthentication = hasUsers(loadedConfig.config.server) || authenticates(requiredHeaders);
  if (isLoopbackHost(host))
    return createOk(
      "exposure.bind",
      `${host} is reachable from this machine only`,
      hasAuthentication ? "clients authenticate" : "processes of this user need no authentication",
    );
  if (hasAuthentication && authenticatesAcp)
    return createOk("exposure.bind", `${host} is reachable from other machines; clients authenticate`);
  if (hasAuthentication)
    return createOk("exposure.bind", `${host} is reachable from other machines`, "ACP needs acp.required_headers");
  if (insecure)
    return createWarning(
      "exposure.insecure",
      "every client that can reach the port can run commands as you",
      `${host} is reachable from other machines, and server.insecure is set`,
      AUTHENTICATE,
    );
  return createError(
    "exposure.bind",
    "the server does not start: it is reachable from other machines without authentication",
    `server.host is ${host}`,
    AUTHENTICATE,
  );
}

function checkBlankHeaders({ loadedConfig }: DoctorContext): Finding[] {
  const { server } = loadedConfig.config;
  const acp: unknown = loadedConfig.rawConfig["acp"];
  const acpHeaders = isRecord(acp) && isRecord(acp["required_headers"]) ? acp["required_headers"] : {};
  const blankNames = [
    ...Object.entries(server.requiredHeaders).map(([name, value]) => [`server.required_headers.${name}`, value]),
    ...Object.entries(acpHeaders).map(([name, value]) => [`acp.required_headers.${name}`, value]),
  ].flatMap(([key, value]) => (String(value).trim() === "" ? [String(key)] : []));
  return blankNames.map((key) =>
    createWarning(
      "exposure.blank-header",
      "a required header has no value and proves nothing",
      `${key} is blank: every value is accepted`,
      'give the header a secret value, for example from an environment variable: "${GANTRY_KEY}"',
    ),
  );
}

/** Binds the port for a moment, unless another process has it. */
async function checkPort({ loadedConfig, signal }: DoctorContext): Promise<Finding> {
  const { port } = loadedConfig.config.server;
  const host = loadedConfig.config.server.host.replace(/^\[(.*)\]$/, "$1") || "::";
  if (port === 0) return createOk("exposure.port", "the server takes a free port");
  const server = createServer();
  try {
    server.listen({ port, host });
    await once(server, "listening", { signal });
    return createOk("exposure.port", `port ${port} is free`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE" && (await isGantry(host, port, signal)))
      return createOk("exposure.port", `gantry is running on port ${port}`);
    const remedy =
      code === "EADDRINUSE"
        ? "stop the other program, or choose another port with --port or server.port"
        : "choose a port above 1023 and an address of this machine (server.port, server.host)";
    return createError("exposure.port", `the server cannot listen on port ${port}`, toReason(error), remedy);
  } finally {
    server.close();
  }
}

async function isGantry(host: string, port: number, signal: AbortSignal): Promise<boolean> {
  const address = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  const deadline = createDeadline(HEALTH_TIMEOUT_MS, signal);
  const { fetch, close } = await createCheckedFetch(() => Promise.resolve());
  try {
    const url = `http://${address.includes(":") ? `[${address}]` : address}:${port}/api/health`;
    const { headers } = await fetch(url, { method: "HEAD", signal: deadline.signal });
    // Every response of gantry's HTTP API has these headers, also a refusal.
    return headers.has(REQUEST_ID_HEADER) && headers.get("x-content-type-options") === "nosniff";
  } catch {
    return false;
  } finally {
    deadline.clear();
    await close();
  }
}
