import { GantryError, hasCode } from "gantry";
import { OTHER } from "./bounded-names.js";

/**
 * The kind of an error, for labels and spans: its code, and for a provider's error also its kind. Foreign errors give
 * `other`, because their names have no limit.
 */
export function toErrorType(error: unknown): string {
  if (hasCode(error, "provider")) return `provider_${error.kind}`;
  return error instanceof GantryError ? error.code : OTHER;
}
