import { Box, Text, useCursor } from "ink";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Desk } from "./desk.js";
import { frameOf } from "./frame.js";
import { paint } from "./spans.js";
import { Transcript } from "./transcript.js";

/** Between two pictures of what moves by itself, in ms. */
const TICK_MS = 120;

/** A terminal's size, which changes. */
export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** The whole of it: what was said, what lies over it, the prompt, and how it stands. */
export function App({ desk, size, colours }: { desk: Desk; size: Size; colours: boolean }) {
  const version = useSyncExternalStore(desk.subscribe, () => desk.version);
  const tick = useTicks(desk.conversation.isRunning);
  const [transcript] = useState(() => new Transcript());
  const { columns, rows } = size;
  // Without the last row: who fills a terminal has it scroll.
  const frame = useMemo(
    () => frameOf(desk, transcript, columns, Math.max(1, rows - 1), tick),
    [desk, transcript, columns, rows, tick, version],
  );
  const { setCursorPosition } = useCursor();
  setCursorPosition(frame.cursor && { ...frame.cursor });
  useEffect(() => {
    if (desk.scroll.wantsOlder) desk.reachedTop();
  }, [desk, frame]);
  return (
    <Box flexDirection="column" width={columns}>
      {frame.rows.map((row, i) => (
        <Text key={i} wrap="truncate">
          {paint(row, colours) || " "}
        </Text>
      ))}
    </Box>
  );
}

/** Counts while something moves. */
function useTicks(moves: boolean): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (!moves) return undefined;
    const timer = setInterval(() => setTick((count) => count + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [moves]);
  return tick;
}
