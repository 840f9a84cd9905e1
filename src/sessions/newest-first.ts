/** The order of lists: by time, ties by id, the greatest first. */
export function newestFirst(time: string, id: string, otherTime: string, otherId: string): number {
  if (time !== otherTime) return time > otherTime ? -1 : 1;
  return id === otherId ? 0 : id > otherId ? -1 : 1;
}
