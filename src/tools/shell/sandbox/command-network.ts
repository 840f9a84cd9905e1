import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shellQuote } from "../../../base/shell-quote.js";
import { ConfigError } from "../../../ports/errors.js";
import type { Logger } from "../../../ports/logger.js";
import {
  describeRefusal,
  FilteringProxy,
  type ConnectHost,
  type RefusedConnection,
} from "../../../http/filtering-proxy.js";
import { parseHostRule, type HostRule } from "../../../http/host-rules.js";
import { connectPublic } from "./public-connection.js";

export interface HostFilterOptions {
  /** The entries of `tools.bash.network`. */
  readonly hosts: readonly string[];
  /** Receives a line for each refused target. Undefined: nothing is logged. */
  readonly logger?: Logger | undefined;
  /** Replaces the connection to public addresses, for tests. */
  readonly connect?: ConnectHost | undefined;
}

/** The network of one command. */
export interface CommandNetwork {
  /** Switches for bubblewrap, after all other mounts. */
  readonly switches: readonly string[];
  /** Shell code that runs in the sandbox before the command. */
  readonly script: string;
  /** Returns notes for the model about refused connections. */
  listNotes(): string[];
  /** Closes all connections and removes the socket. Never rejects. */
  close(): Promise<void>;
}

/** Path of the proxy's socket in the sandbox, where /run is an empty folder. */
const SOCKET_PATH = "/run/gantry-proxy.sock";
/** Port of the forwarder. Free, because each command has its own loopback interface. */
const FORWARDER_PORT = 3128;
const PROXY_URL = `http://127.0.0.1:${FORWARDER_PORT}`;
/** Maximum refused targets that a result names. */
const MAX_SHOWN_REFUSALS = 10;
/** Maximum refused targets that are remembered to log each only once. */
const MAX_LOGGED_TARGETS = 1_000;

/**
 * Program of the forwarder: listens on loopback, because few HTTP clients can use a proxy on a Unix socket, and copies
 * to the proxy. Node runs it, because other programs such as socat may be missing.
 *
 * Closing standard output reports that the port is open. The null device takes its number, because libuv aborts if a
 * connection gets it.
 */
const FORWARDER_SCRIPT = `
const fs = require("node:fs");
const net = require("node:net");
net.createServer({ allowHalfOpen: true }, (client) => {
  const proxy = net.connect({ path: "${SOCKET_PATH}", allowHalfOpen: true });
  for (const [source, target] of [[client, proxy], [proxy, client]]) {
    source.on("error", () => {}).on("close", () => target.destroy());
    source.pipe(target);
  }
}).listen(${FORWARDER_PORT}, "127.0.0.1", () => {
  fs.writeSync(1, "ready");
  fs.closeSync(1);
  fs.openSync("/dev/null", "w");
});
`;

/** Variables that make HTTP clients and package managers use the proxy. Servers on loopback are reached directly. */
const PROXY_ENV = {
  ...Object.fromEntries(
    ["http_proxy", "https_proxy", "all_proxy"].flatMap((name) => [
      [name, PROXY_URL],
      [name.toUpperCase(), PROXY_URL],
    ]),
  ),
  ...{ no_proxy: "localhost,127.0.0.1,::1", NO_PROXY: "localhost,127.0.0.1,::1" },
  ...{ npm_config_proxy: PROXY_URL, npm_config_https_proxy: PROXY_URL },
  ...{ YARN_HTTP_PROXY: PROXY_URL, YARN_HTTPS_PROXY: PROXY_URL },
};

/** Gives each command a network in which only the listed hosts can be reached. */
export class HostFilter {
  readonly #options: HostFilterOptions;
  readonly #rules: readonly HostRule[];
  readonly #openNetworks = new Set<CommandNetwork>();
  readonly #loggedTargets = new Set<string>();

  /** Throws `ConfigError` for an invalid entry. */
  constructor(options: HostFilterOptions) {
    this.#options = options;
    this.#rules = parseHostRules(options.hosts);
  }

  /** Opens the network of a command. Rejects with the system's error. The caller closes it after the command. */
  async open(): Promise<CommandNetwork> {
    const refusalsByTarget = new Map<string, RefusedConnection>();
    const folder = await mkdtemp(join(tmpdir(), "gantry-proxy-"));
    const removeFolder = () => rm(folder, { recursive: true, force: true }).catch(() => undefined);
    const socketPath = join(folder, "proxy.sock");
    const proxy = await FilteringProxy.listen(socketPath, {
      rules: this.#rules,
      connect: this.#options.connect ?? connectPublic,
      onRefused: (refusal) => {
        this.#log(refusal);
        if (refusalsByTarget.size < MAX_SHOWN_REFUSALS) refusalsByTarget.set(refusal.target, refusal);
      },
    }).catch(async (error: unknown) => {
      await removeFolder();
      throw error;
    });
    const network: CommandNetwork = {
      switches: [
        "--bind",
        socketPath,
        SOCKET_PATH,
        ...Object.entries(PROXY_ENV).flatMap((pair) => ["--setenv", ...pair]),
      ],
      script: createForwarderStart(),
      listNotes: () => [...refusalsByTarget.values()].map((refusal) => `[${describeRefusal(refusal)}]`),
      close: async () => {
        this.#openNetworks.delete(network);
        await proxy.close();
        await removeFolder();
      },
    };
    this.#openNetworks.add(network);
    return network;
  }

  /** Closes the networks of all commands. Never rejects. */
  async close(): Promise<void> {
    await Promise.all([...this.#openNetworks].map((network) => network.close()));
  }

  #log(refusal: RefusedConnection): void {
    if (this.#loggedTargets.has(refusal.target) || this.#loggedTargets.size >= MAX_LOGGED_TARGETS) return;
    this.#loggedTargets.add(refusal.target);
    this.#options.logger?.warn(describeRefusal(refusal));
  }
}

/** Parses the entries of `tools.bash.network`. Throws `ConfigError` for an invalid entry. */
export function parseHostRules(hosts: readonly string[]): HostRule[] {
  return hosts.map((text) => {
    const rule = parseHostRule(text);
    if (rule) return rule;
    const expected = "a host name, *.name or an address, with or without a port";
    throw new ConfigError(`tools.bash.network: expected ${expected}, got ${JSON.stringify(text)}`);
  });
}

/** Creates shell code that starts the forwarder and waits until its port is open. */
function createForwarderStart(): string {
  const environment = `NODE_OPTIONS=${process.versions["electron"] === undefined ? "" : " ELECTRON_RUN_AS_NODE=1"}`;
  const command = `${environment} ${shellQuote(process.execPath)} -e ${shellQuote(FORWARDER_SCRIPT)}`;
  const refusal = "echo 'the forwarder of tools.bash.network could not start' >&2; exit 126";
  // Its error stream is closed, so that the end of the sandbox does not wait for it.
  return `[ "$(${command} </dev/null 2>/dev/null &)" = ready ] || { ${refusal}; }; `;
}
