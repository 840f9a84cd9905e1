/** Policy when no client can answer an ask. */
export type Unattended = "reject" | "allow" | "wait";
export const UNATTENDED: readonly Unattended[] = ["reject", "allow", "wait"];
