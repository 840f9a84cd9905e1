/**
 * Identifies the holder of a lease or of a queue position. Any process on the same host can determine with these fields
 * whether the holder's process is alive.
 */
export interface LeaseHolder {
  /** Unique per run. */
  id: string;
  /** Host name, with an id of the machine and of its process id namespace. */
  host: string;
  /** Boot id of the host. On the same machine, a holder with another boot id is dead. */
  boot: string;
  pid: number;
  /** Start time of the process, in the host's own unit, to detect a reused pid. `""` if unknown. */
  started: string;
}
