/** A line of a comparison of two texts. The line numbers count from 1; 0 if the text does not contain the line. */
export interface DiffRow {
  kind: "same" | "removed" | "added";
  text: string;
  oldLineNumber: number;
  newLineNumber: number;
  /** Whether the row is the last line of a text without a final line break. */
  lacksLineBreak: boolean;
}

/** Rows that are shown, or unchanged rows that are folded at first. */
export interface DiffBlock {
  kind: "shown" | "folded";
  rows: readonly DiffRow[];
}

/**
 * Groups rows into blocks. `context`: number of unchanged lines that are shown before and after a change. Longer
 * unchanged stretches are folded.
 */
export function groupRows(rows: readonly DiffRow[], context = 3): DiffBlock[] {
  const isNearChange = new Uint8Array(rows.length);
  for (const [index, { kind }] of rows.entries())
    if (kind !== "same") isNearChange.fill(1, Math.max(0, index - context), Math.min(rows.length, index + context + 1));
  const blocks: DiffBlock[] = [];
  for (let from = 0; from < rows.length;) {
    let to = from;
    while (to < rows.length && isNearChange[to] === isNearChange[from]) to++;
    const blockRows = rows.slice(from, to);
    const lastBlock = blocks.at(-1);
    // A fold line for one or two lines would save no space.
    if (isNearChange[from] === 1 || blockRows.length <= 2) {
      if (lastBlock?.kind === "shown") lastBlock.rows = [...lastBlock.rows, ...blockRows];
      else blocks.push({ kind: "shown", rows: blockRows });
    } else blocks.push({ kind: "folded", rows: blockRows });
    from = to;
  }
  return blocks;
}

/** A removed row and its replacement, or an unchanged row twice. Undefined: the other side has no such row. */
export type RowPair = readonly [left: DiffRow | undefined, right: DiffRow | undefined];

export function pairRows(rows: readonly DiffRow[]): RowPair[] {
  const pairs: RowPair[] = [];
  for (let index = 0; index < rows.length;) {
    const row = rows[index];
    if (row?.kind === "same") {
      pairs.push([row, row]);
      index++;
      continue;
    }
    const [removed, added]: [DiffRow[], DiffRow[]] = [[], []];
    for (let changedRow = rows[index]; changedRow && changedRow.kind !== "same"; changedRow = rows[++index])
      (changedRow.kind === "removed" ? removed : added).push(changedRow);
    for (let i = 0; i < Math.max(removed.length, added.length); i++) pairs.push([removed[i], added[i]]);
  }
  return pairs;
}

export function countChanges(rows: readonly DiffRow[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const { kind } of rows)
    if (kind === "added") added++;
    else if (kind === "removed") removed++;
  return { added, removed };
}
