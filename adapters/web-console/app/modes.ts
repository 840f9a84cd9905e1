import type { Mode } from "gantry/client";

/** Label and description of each mode. */
export const MODES: Readonly<Record<Mode, readonly [label: string, description: string]>> = {
  auto: ["Auto", "Tools run without asking"],
  ask: ["Ask", "Edits and commands need your approval"],
  plan: ["Plan", "The agent changes nothing and makes a plan"],
};
