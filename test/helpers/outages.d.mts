import type { SessionDriver } from "gantry/plugin";

/**
 * Wraps a driver. While `getState` returns `fail`, calls fail; with `hang`, calls never return; with `slow`, calls are
 * delayed by 20 ms; with "", calls are unchanged.
 */
export function withOutages(driver: SessionDriver, getState: () => "" | "fail" | "hang" | "slow"): SessionDriver;
