import { InputError } from "../ports/errors.js";
import type { ReasoningEffort } from "../ports/model-provider.js";
import type { RunInput } from "../ports/run.js";

/** Every level of reasoning that there is. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high"];

const KNOWN: Readonly<Record<keyof RunInput, true>> = {
  message: true,
  attachments: true,
  attach: true,
  provider: true,
  model: true,
  reasoningEffort: true,
  sessionId: true,
  projectDir: true,
  signal: true,
  onWaiting: true,
  overflow: true,
  ask: true,
};

/** Throws `InputError`. */
export function checkInput(input: RunInput): void {
  const strings = ["message", "provider", "model", "sessionId", "projectDir"] as const;
  for (const field of strings) {
    const value: unknown = input[field];
    if (typeof value !== "string" && (field === "message" || value !== undefined))
      throw new InputError(field, "a string");
    // Half a character is in no header, no path and no database; a prompt may hold one that was cut.
    if (field !== "message" && typeof value === "string" && /\p{Surrogate}/u.test(value))
      throw new InputError(field, "whole characters");
  }
  for (const field of Object.keys(input))
    if (!Object.hasOwn(KNOWN, field)) throw new InputError(field, `one of ${Object.keys(KNOWN).join(", ")}`);
  if (input.reasoningEffort !== undefined) oneOf("reasoningEffort", EFFORTS, input.reasoningEffort);
  if (input.overflow !== undefined) oneOf("overflow", ["drop", "merge"], input.overflow);
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a prompt that is not empty");
}

/** Throws `InputError` unless `value` is one of the names. */
export function oneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
}
