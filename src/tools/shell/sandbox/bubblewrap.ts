import { existsSync } from "node:fs";
import { Child } from "../../../processes/child.js";

/** A bubblewrap that works here, and the switches that it works with. */
export interface Bubblewrap {
  readonly file: string;
  readonly switches: readonly string[];
}

export interface BubblewrapNeeds {
  env: Readonly<Record<string, string>>;
  /** Whether the machine's network stays in reach. */
  network: boolean;
  /** Whether root must be able to write to files of other users, as in a project folder that is mounted into a container. */
  foreignFiles?: boolean;
}

/** Only from the system's folders: one in the project folder would be the project's word for its own sandbox. */
const PLACES = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

const NAMESPACES = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];

/**
 * Best first. A user namespace takes from root what it could do to the mounts; that no other can be made within closes
 * the usual way to win it back. Old versions know no `--disable-userns`, and some containers allow no user namespace:
 * root does without, because no capability is left to it either way.
 */
const USER_NAMESPACE = [["--unshare-user", "--disable-userns"], ["--unshare-user"], []];

const tried = new Map<string, Promise<Bubblewrap | undefined>>();

/** Tried once a process for the same needs; undefined where there is none that works. */
export function findBubblewrap(needs: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
  const key = `${needs.network} ${needs.foreignFiles === true}`;
  let found = tried.get(key);
  if (!found) {
    found = tryBubblewrap(needs).catch(() => undefined);
    tried.set(key, found);
  }
  return found;
}

async function tryBubblewrap({ env, network, foreignFiles }: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
  if (process.platform !== "linux") return undefined;
  const file = PLACES.find((path) => existsSync(path));
  if (file === undefined) return undefined;
  // In a user namespace of one user, the files of all others belong to nobody, whatever capabilities it has.
  const keep = foreignFiles === true ? ["CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN"] : [];
  for (const own of foreignFiles === true ? [[]] : USER_NAMESPACE) {
    const switches = [
      ...own,
      ...NAMESPACES,
      ...(network ? [] : ["--unshare-net"]),
      ...["--cap-drop", "ALL"],
      ...keep.flatMap((name) => ["--cap-add", name]),
    ];
    const args = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", ...switches];
    const child = await Child.start({ file, args: ["/bin/sh", "-c", ":"], cwd: "/", env, sandbox: true });
    // Whoever asks may be killed meanwhile: bubblewrap, ended halfway, would leave a process that waits for ever.
    child.arrange(args, { alone: true });
    const end = await child.run({
      timeoutMs: 5_000,
      signal: new AbortController().signal,
      onOutput: () => undefined,
    });
    if (end.code === 0) return { file, switches };
  }
  return undefined;
}
