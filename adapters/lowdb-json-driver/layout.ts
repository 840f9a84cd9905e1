import { createHash } from "node:crypto";
import { join } from "node:path";

/** Version of the files that this code reads and writes. */
export const VERSION = 1;

/** How many locks all chains share; two chains that meet at one only wait a little longer. */
const SLOTS = 64;

/** Where everything lies. */
export class Layout {
  /** `<id>.json` files alone. */
  readonly sessions: string;
  /** All else. */
  readonly beside: string;
  readonly index: string;
  readonly journals: string;
  readonly leases: string;
  readonly locks: string;
  /** A folder for each open driver, with its temporary files. */
  readonly instances: string;
  readonly version: string;
  readonly fence: string;

  constructor(path: string) {
    this.sessions = path;
    this.beside = `${path}.d`;
    this.index = join(this.beside, "index.jsonl");
    this.journals = join(this.beside, "journals");
    this.leases = join(this.beside, "leases");
    this.locks = join(this.beside, "locks");
    this.instances = join(this.beside, "open");
    this.version = join(this.beside, "version.json");
    this.fence = join(this.beside, "fence.json");
  }

  session(id: string): string {
    return join(this.sessions, `${fileName(id)}.json`);
  }

  journal(root: string): string {
    return join(this.journals, `${fileName(root)}.jsonl`);
  }

  lease(root: string): string {
    return join(this.leases, `${fileName(root)}.json`);
  }
}

/** The lock that guards a chain. */
export function slotOf(root: string): string {
  const [first = 0] = createHash("sha256").update(root).digest();
  return `chain-${first % SLOTS}`;
}

const SAFE = /^[a-z0-9][a-z0-9_-]{0,79}$/;
// Windows opens a device for these, whatever the extension.
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)$/;

/** A name that is safe on every file system, also on those that fold case: the id itself, or `~` and its hash. */
export function fileName(id: string): string {
  if (SAFE.test(id) && !DEVICE.test(id)) return id;
  return `~${createHash("sha256").update(JSON.stringify(id)).digest("hex")}`;
}
