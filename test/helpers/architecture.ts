import { findImportCycles, findRepeatedTypeNames, findStartFaults } from "./architecture/graph-rules.js";
import { findImportFaults, findPathFaults } from "./architecture/import-rules.js";
import type { Module } from "./architecture/modules.js";
import { findUsageFaults } from "./architecture/usage-rules.js";

/** Returns every violation as `file: message`. Only the rules of the start path ignore type-only imports. */
export function findArchitectureFaults(modules: ReadonlyMap<string, Module>): string[] {
  const faults = [...modules.values()].flatMap((module) => [
    ...findImportFaults(module),
    ...findUsageFaults(module),
    ...findPathFaults(module),
  ]);
  faults.push(...findImportCycles(modules), ...findStartFaults(modules), ...findRepeatedTypeNames(modules));
  return faults.sort();
}
