/** Maximum number of edits that are counted exactly. The work grows with its square. */
const MAX_EDITS = 2_000;

/** Decodes UTF-8 text. Undefined for other content, and for content with null bytes. */
export function decodeText(content: Buffer): string | undefined {
  if (content.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    return undefined;
  }
}

/** Splits a text into lines, each with its line end. The last line may have none. */
export function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Counts the lines that a change added and removed. More than `MAX_EDITS` edits count as a replacement. */
export function countChangedLines(oldText: string, newText: string): { added: number; removed: number } {
  const [oldLines, newLines] = [splitLines(oldText), splitLines(newText)];
  let start = 0;
  while (start < oldLines.length && start < newLines.length && oldLines[start] === newLines[start]) start++;
  let [oldEnd, newEnd] = [oldLines.length, newLines.length];
  while (oldEnd > start && newEnd > start && oldLines[oldEnd - 1] === newLines[newEnd - 1]) {
    oldEnd--;
    newEnd--;
  }
  const [oldPart, newPart] = [oldLines.slice(start, oldEnd), newLines.slice(start, newEnd)];
  const editCount = countEdits(oldPart, newPart) ?? oldPart.length + newPart.length;
  // Every edit adds or removes one line.
  const added = (editCount + newPart.length - oldPart.length) / 2;
  return { added, removed: editCount - added };
}

/** The smallest number of added and removed lines, by the greedy algorithm of Myers. Undefined above `MAX_EDITS`. */
function countEdits(oldLines: readonly string[], newLines: readonly string[]): number | undefined {
  const [oldCount, newCount] = [oldLines.length, newLines.length];
  if (oldCount === 0 || newCount === 0) return oldCount + newCount;
  const maxEdits = Math.min(MAX_EDITS, oldCount + newCount);
  /** The greatest position in the old lines by diagonal. A diagonal is that position minus the position in the new. */
  const ends = new Int32Array(2 * maxEdits + 3);
  const center = maxEdits + 1;
  for (let edits = 0; edits <= maxEdits; edits++)
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const [below, above] = [ends[center + diagonal - 1] ?? 0, ends[center + diagonal + 1] ?? 0];
      const isAddition = diagonal === -edits || (diagonal !== edits && below < above);
      let oldIndex = isAddition ? above : below + 1;
      let newIndex = oldIndex - diagonal;
      while (oldIndex < oldCount && newIndex < newCount && oldLines[oldIndex] === newLines[newIndex]) {
        oldIndex++;
        newIndex++;
      }
      ends[center + diagonal] = oldIndex;
      if (oldIndex >= oldCount && newIndex >= newCount) return edits;
    }
  return undefined;
}
