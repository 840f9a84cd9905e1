/** What becomes of a question that nobody is there to answer. */
export type Unattended = "reject" | "allow" | "wait";
export const UNATTENDED: readonly Unattended[] = ["reject", "allow", "wait"];
