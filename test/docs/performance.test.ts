import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  countChanges,
  DOCUMENT,
  findMeasuredCommit,
  getMissingHistoryReason,
  hasCommit,
} from "../bench/measured-commit.js";

const UPDATE_HINT = '"npm run bench -- --write" measures the current commit';

describe("docs/performance.md", () => {
  it("names the commit of its figures, and reports how much code has changed since", (t) => {
    const hash = findMeasuredCommit(readFileSync(DOCUMENT, "utf8"));
    assert.ok(hash !== undefined, `the table names no commit: ${UPDATE_HINT}`);
    const missingHistoryReason = getMissingHistoryReason();
    if (missingHistoryReason !== undefined)
      return t.diagnostic(`the age of the figures is unknown: ${missingHistoryReason}`);
    assert.ok(
      hasCommit(hash),
      `commit ${hash} of the table is not in the history of this commit, for example after a rebase: ${UPDATE_HINT}`,
    );
    // Figures need a quiet machine and minutes, so old figures fail no test.
    const changes = countChanges(hash)
      .filter(({ commits }) => commits > 0)
      .map(({ folder, commits, lines }) => `${commits} commits in ${folder} (${lines} lines)`);
    t.diagnostic(
      changes.length === 0
        ? `the figures are those of the current code (${hash})`
        : `the figures are older than the code: since ${hash} there were ${changes.join(" and ")}; ${UPDATE_HINT}`,
    );
  });

  it("is checked for its commit between the marks of the table only", () => {
    const commitLine = "Measured at commit 0123abc of 2026-11-27.";
    const table = (text: string): string => `<!-- bench:begin -->\n\n${text}\n\n<!-- bench:end -->\n`;
    assert.equal(findMeasuredCommit(table(commitLine)), "0123abc");
    assert.equal(findMeasuredCommit(`${commitLine}\n${table("2 x CPU")}`), undefined);
  });
});
