/** Compares two list entries for a sort: newest first, ties by greatest id first. */
export function compareNewestFirst(time: string, id: string, otherTime: string, otherId: string): number {
  if (time !== otherTime) return time > otherTime ? -1 : 1;
  return id === otherId ? 0 : id > otherId ? -1 : 1;
}
