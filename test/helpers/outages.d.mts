import type { SessionDriver } from "gantry/plugin";

/** The same driver, whose calls fail or hang as long as `state` says so. */
export function withOutages(driver: SessionDriver, state: () => "" | "fail" | "hang" | "slow"): SessionDriver;
