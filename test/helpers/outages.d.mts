import type { SessionDriver } from "gantry/plugin";

/** Wraps a driver whose calls fail, hang or are delayed while `state` returns that word. "": calls are unchanged. */
export function withOutages(driver: SessionDriver, state: () => "" | "fail" | "hang" | "slow"): SessionDriver;
