/** @jsxRuntime automatic */
import { Box, Text } from "ink";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Desk } from "./desk.js";
import { frameOf } from "./frame.js";
import type { Painter } from "./painter.js";
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
export function App(props: { desk: Desk; painter: Painter; size: Size; colours: boolean }) {
  const { desk, painter, size, colours } = props;
  const version = useSyncExternalStore(desk.subscribe, () => desk.version);
  const tick = useTicks(desk.conversation.isRunning);
  const [transcript] = useState(() => new Transcript());
  const { columns, rows } = size;
  const frame = useMemo(
    () => frameOf(desk, transcript, columns, rows, tick),
    [desk, transcript, columns, rows, tick, version],
  );
  painter.cursor = frame.cursor;
  useEffect(() => {
    painter.place(frame.cursor);
    if (desk.scroll.wantsOlder) desk.reachedTop();
  }, [desk, painter, frame]);
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
