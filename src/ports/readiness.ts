/** Reason why an agent cannot accept work now. The message is for people and names no file and no host. */
export interface ReadinessProblem {
  code: "store_full" | "store_locked" | "store_unreachable" | "models_syncing" | "overloaded" | "draining";
  message: string;
}

/** Whether an agent can accept work now: true if there are no reasons against it. */
export interface Readiness {
  ready: boolean;
  reasons: readonly ReadinessProblem[];
}
