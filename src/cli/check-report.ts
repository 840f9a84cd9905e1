import type { AdapterKind } from "../plugin/adapter.js";
import { toPrintableLines } from "../base/printable.js";

const STATUSES = ["passed", "failed", "not_checked", "not_run"] as const;

/** Result of one check. */
export interface CheckResult {
  /** The capability that the check tests. */
  readonly group: string;
  readonly name: string;
  /** `not_checked`: the check needs a fixture. `not_run`: too many earlier checks hung. */
  readonly status: (typeof STATUSES)[number];
  /** Reason of any status but `passed`. */
  readonly message?: string;
}

/** Results of all checks of one exported adapter. */
export interface AdapterReport {
  readonly exportName: string;
  readonly kind: AdapterKind;
  readonly name: string;
  readonly checks: readonly CheckResult[];
  /** Names of the optional members that the adapter or the fixture does not implement. */
  readonly notDeclared: readonly string[];
}

export function formatReport({ exportName, kind, name, checks, notDeclared }: AdapterReport): string {
  const groups = [...new Set(checks.map(({ group }) => group))];
  const width = Math.max(...groups.map((group) => group.length));
  const rows = groups.flatMap((group) => {
    const groupChecks = checks.filter((check) => check.group === group);
    return [
      `  ${group.padEnd(width)}  ${formatCounts(groupChecks)}`,
      ...groupChecks.filter(isFailed).map(formatFailure),
    ];
  });
  const reasons = checks.flatMap(({ status, message = "" }) =>
    status.startsWith("not") ? [`  ${formatStatus(status)}: ${message}`] : [],
  );
  return toPrintableLines(
    [
      `${name} (${kind}, ${exportName})`,
      ...rows,
      ...(notDeclared.length > 0 ? [`  not declared: ${notDeclared.join(", ")}`] : []),
      ...new Set(reasons),
      `${checks.length} checks: ${formatCounts(checks)}\n`,
    ].join("\n"),
  );
}

function formatCounts(checks: readonly CheckResult[]): string {
  const countsByStatus = STATUSES.map(
    (status) => [status, checks.filter((check) => check.status === status).length] as const,
  );
  return countsByStatus
    .flatMap(([status, count]) => (count > 0 ? [`${count} ${formatStatus(status)}`] : []))
    .join(", ");
}

function formatStatus(status: CheckResult["status"]): string {
  return status.replace("_", " ");
}

function isFailed({ status }: CheckResult): boolean {
  return status === "failed";
}

function formatFailure({ name, message = "" }: CheckResult): string {
  return `    FAILED ${name}\n${message.trim().replace(/^/gm, "      ")}`;
}
