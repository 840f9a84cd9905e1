/** Who holds a lease, or waits in line: enough to tell, on the same host, whether that process still lives. */
export interface Holder {
  /** Unique to the run that asked. */
  id: string;
  /** With what names its machine, and the namespace in which its process ids count. */
  host: string;
  /** Boot id of the host; a holder of another boot is gone, where the machine is known to be the same. */
  boot: string;
  pid: number;
  /** Start time of the process in the host's own unit, so that a reused pid is not mistaken; `""` where unknown. */
  started: string;
}
