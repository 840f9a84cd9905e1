import type { Finding, FindingGroup, FindingStatus } from "./finding.js";

const MAX_COLUMNS = 80;
const MARKS: Readonly<Record<FindingStatus, string>> = { ok: "ok", warning: "warning", error: "ERROR", skipped: "-" };

/** Formats the findings in groups, with the remedy of each warning and error, for 80 columns. */
export function formatReport(groups: readonly FindingGroup[]): string {
  const findings = groups.flatMap((group) => group.findings);
  const count = (status: FindingStatus) => findings.filter((finding) => finding.status === status).length;
  const blocks = groups.map(({ group, findings: groupFindings }) =>
    [group, ...groupFindings.map(formatFinding)].join("\n"),
  );
  const counts = `${count("ok")} ok, ${count("warning")} warnings, ${count("error")} errors, ${count("skipped")} skipped`;
  return `${blocks.join("\n\n")}\n\n${counts}\n`;
}

function formatFinding({ status, title, detail, remedy, id }: Finding): string {
  const needsAction = status === "warning" || status === "error";
  return [
    wrap(needsAction ? `${title} (${id})` : title, `  ${MARKS[status].padEnd(8)}`, "          "),
    ...(detail === "" ? [] : [wrap(detail, "          ", "          ")]),
    ...(remedy === "" ? [] : [wrap(`Remedy: ${remedy}`, "          ", "            ")]),
  ].join("\n");
}

/** Breaks a text at spaces. A longer word, such as a path, stays whole. Control characters become spaces. */
function wrap(text: string, firstIndent: string, indent: string): string {
  const lines: string[] = [];
  let line = firstIndent;
  let isEmpty = true;
  for (const word of text.split(/[\s\p{Cc}]+/u)) {
    if (!isEmpty && line.length + 1 + word.length > MAX_COLUMNS) {
      lines.push(line);
      line = indent;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line].join("\n");
}
