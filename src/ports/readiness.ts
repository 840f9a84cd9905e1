/** Reason why an agent cannot accept work now. The message is for people and contains no details of the machine. */
export interface ReadinessProblem {
  code: "store_unreachable" | "models_syncing" | "draining";
  message: string;
}

/** Whether an agent can accept work now: true if there are no reasons against it. */
export interface Readiness {
  ready: boolean;
  reasons: readonly ReadinessProblem[];
}
