import type { LoadedConfig } from "../../serve/config.js";
import type { ConfigFlags } from "../command.js";

export type FindingStatus = "ok" | "warning" | "error" | "skipped";

/** Result of one check. */
export interface Finding {
  /** Stable id, such as `home.mode`. */
  readonly id: string;
  readonly status: FindingStatus;
  readonly title: string;
  /** Values that explain the title, without secrets; `""` for none. */
  readonly detail: string;
  /** Action of the user; `""` if no action is needed. */
  readonly remedy: string;
}

/** Input of the checks. No check changes anything. */
export interface DoctorContext {
  readonly loadedConfig: LoadedConfig;
  /** Why the config cannot be used; the checks then read the defaults. */
  readonly configError: Error | undefined;
  readonly flags: ConfigFlags;
  readonly home: string;
  readonly projectDir: string;
  readonly signal: AbortSignal;
}

/** A group of checks, which runs concurrently with the other groups. */
export interface DoctorCheck {
  readonly group: string;
  readonly run: (context: DoctorContext) => Promise<Finding[]> | Finding[];
}

/** Findings of a group of checks. */
export interface FindingGroup {
  readonly group: string;
  readonly findings: readonly Finding[];
}

export const createOk = (id: string, title: string, detail = ""): Finding => ({
  ...{ id, status: "ok", title, detail, remedy: "" },
});
export const createSkipped = (id: string, title: string, detail: string): Finding => ({
  ...{ id, status: "skipped", title, detail, remedy: "" },
});
export const createWarning = (id: string, title: string, detail: string, remedy: string): Finding => ({
  ...{ id, status: "warning", title, detail, remedy },
});
export const createError = (id: string, title: string, detail: string, remedy: string): Finding => ({
  ...{ id, status: "error", title, detail, remedy },
});

/** Text of an error in one line. */
export function toReason(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").slice(0, 500);
}
