import { existsSync } from "node:fs";
import { Child } from "../../../processes/child.js";

/** A bubblewrap that works on this machine, with its working switches. */
export interface Bubblewrap {
  readonly file: string;
  readonly switches: readonly string[];
}

export interface BubblewrapNeeds {
  env: Readonly<Record<string, string>>;
  /** Whether commands can use the network. */
  network: boolean;
  /**
   * Whether root must be able to write to files of other users, as in a project folder that is mounted into a
   * container. Default: false.
   */
  needsForeignFiles?: boolean;
}

/** Only system folders: a program in the project folder would let the project define its own sandbox. */
const BUBBLEWRAP_PATHS = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

const NAMESPACE_SWITCHES = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];
/** Time limit of the command that tests bubblewrap, in ms. */
const PROBE_TIMEOUT_MS = 5_000;

/**
 * Switches for the user namespace, the best first. The namespace takes away root's power over the mounts.
 * `--disable-userns` prevents a nested namespace, the usual way to regain that power.
 *
 * Old versions do not support `--disable-userns`, and some containers allow no user namespace. Root then runs without
 * a user namespace, because all capabilities are dropped anyway.
 */
const USER_NAMESPACE_SWITCHES = [["--unshare-user", "--disable-userns"], ["--unshare-user"], []];

const resultsByNeeds = new Map<string, Promise<Bubblewrap | undefined>>();

/**
 * Finds a working bubblewrap. The result is cached per process by `network` and `needsForeignFiles`; the first call's
 * `env` is used. Undefined if no bubblewrap works. Never rejects.
 */
export function findBubblewrap(needs: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
  const key = `${needs.network} ${needs.needsForeignFiles === true}`;
  let result = resultsByNeeds.get(key);
  if (!result) {
    result = tryBubblewrap(needs).catch(() => undefined);
    resultsByNeeds.set(key, result);
  }
  return result;
}

async function tryBubblewrap({ env, network, needsForeignFiles }: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
  if (process.platform !== "linux") return undefined;
  const file = BUBBLEWRAP_PATHS.find((path) => existsSync(path));
  if (file === undefined) return undefined;
  const keptCapabilities = needsForeignFiles === true ? ["CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN"] : [];
  // A user namespace that maps only one user ID does not apply capabilities to other users' files. Access to foreign
  // files needs a sandbox without a user namespace.
  for (const userNamespace of needsForeignFiles === true ? [[]] : USER_NAMESPACE_SWITCHES) {
    const switches = [
      ...userNamespace,
      ...NAMESPACE_SWITCHES,
      ...(network ? [] : ["--unshare-net"]),
      ...["--cap-drop", "ALL"],
      ...keptCapabilities.flatMap((name) => ["--cap-add", name]),
    ];
    const args = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", ...switches];
    const program = { file, args: ["/bin/sh", "-c", ":"], cwd: "/", env };
    // A leaf, because its shell starts no program: a search for its processes would take longer than the test.
    const child = await Child.start({ ...program, isSandbox: true, isLeaf: true });
    child.configureSandbox(args);
    const end = await child.run({
      timeoutMs: PROBE_TIMEOUT_MS,
      signal: new AbortController().signal,
      onOutput: () => undefined,
    });
    if (end.code === 0) return { file, switches };
  }
  return undefined;
}
