/** Why no work should be given to an agent now. The message is for people, and names nothing of the machine. */
export interface NotReady {
  code: "store_unreachable" | "models_syncing" | "draining";
  message: string;
}

/** Whether work can be given to an agent now: where there is no reason against it. */
export interface Readiness {
  ready: boolean;
  reasons: readonly NotReady[];
}
