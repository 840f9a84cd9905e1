/** Policy when no client can answer an ask. */
export type Unattended = "reject" | "allow" | "wait";
export const UNATTENDED_POLICIES: readonly Unattended[] = ["reject", "allow", "wait"];
