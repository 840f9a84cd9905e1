/** Current numbers of an agent in this process. Reading them costs no query. */
export interface AgentStatistics {
  /** Runs that have a slot: active runs, and runs that are starting. */
  activeRuns: number;
  /** Runs that wait for their session or for a slot. */
  queuedRuns: number;
  /** Active runs that wait until other runs have read their attachments. */
  waitingReaders: number;
  /** Sessions that have a watcher or an active run. */
  liveSessions: number;
  /** Watchers of all sessions, such as open event streams. */
  watchers: number;
  /** Leases that the agents of this process hold. */
  leases: number;
}
