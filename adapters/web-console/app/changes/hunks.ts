import type { ApiHunk } from "gantry/client";
import { groupRows, type DiffRow } from "../diff-rows.js";

/** Changed lines with the unchanged lines around them. */
export interface Hunk {
  readonly rows: readonly DiffRow[];
  /** The lines with their surroundings. The first line of an empty range is the line after it. */
  readonly range: ApiHunk;
  /** The lines from the first to the last change. */
  readonly change: ApiHunk;
}

/** Groups the rows of a comparison of two complete texts. */
export function toHunks(rows: readonly DiffRow[]): Hunk[] {
  const hunks: Hunk[] = [];
  let [oldStart, newStart] = [1, 1];
  for (const { rows: blockRows } of groupRows(rows)) {
    const range = countLines(blockRows, oldStart, newStart);
    const first = blockRows.findIndex(isChange);
    if (first >= 0) {
      const changedRows = blockRows.slice(first, blockRows.findLastIndex(isChange) + 1);
      hunks.push({ rows: blockRows, range, change: countLines(changedRows, oldStart + first, newStart + first) });
    }
    oldStart += range.old_lines;
    newStart += range.new_lines;
  }
  return hunks;
}

const isChange = ({ kind }: DiffRow): boolean => kind !== "same";

function countLines(rows: readonly DiffRow[], old_start: number, new_start: number): ApiHunk {
  const old_lines = rows.filter(({ kind }) => kind !== "added").length;
  const new_lines = rows.filter(({ kind }) => kind !== "removed").length;
  return { old_start, old_lines, new_start, new_lines };
}
