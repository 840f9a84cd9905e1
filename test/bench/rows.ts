// The rows of the bench and their goals. Nothing else decides whether a row passes.

/** The limit for the compared value of a row. */
export interface Goal {
  /**
   * The compared value. `ratio`: gantry's figure divided by the floor's figure. `difference`: gantry's figure minus the
   * floor's figure. `value`: gantry's figure. The floor is a minimal reference program.
   */
  comparison: "ratio" | "difference" | "value";
  atMost?: number;
  atLeast?: number;
}

export interface Row {
  id: string;
  title: string;
  unit: "ms" | "MB" | "runs/s" | "turns/s" | "round trips" | "bytes";
  goal: Goal;
  /** Description of the reference in the floor column. */
  floor: string;
}

const FLOOR_AGENT = "floor agent";

/** All rows, in the order of the table. */
export const ROWS: readonly Row[] = [
  createRow("stdio-start", "stdio: spawn to a usable session", "ms", { comparison: "ratio", atMost: 2.3 }, FLOOR_AGENT),
  createRow("warm-turn", "warm turn", "ms", { comparison: "ratio", atMost: 3 }, FLOOR_AGENT),
  createRow(
    "first-turn",
    "first turn of a process, stdio",
    "ms",
    { comparison: "ratio", atMost: 3 },
    "its own warm turn",
  ),
  createRow(
    "first-turn-http",
    "first turn of a process, HTTP",
    "ms",
    { comparison: "ratio", atMost: 3 },
    "its own warm turn",
  ),
  createRow(
    "early-turns",
    "turns 2 to 21 of a process, stdio",
    "ms",
    { comparison: "ratio", atMost: 3.5 },
    FLOOR_AGENT,
  ),
  createRow(
    "after-silence",
    "first turn of a session after a minute of silence",
    "ms",
    { comparison: "difference", atMost: 10 },
    "without the silence",
  ),
  createRow("tokens-5000", "5,000 tokens", "ms", { comparison: "ratio", atMost: 2 }, FLOOR_AGENT),
  createRow("tool-read", "tool turn: reads a file", "ms", { comparison: "ratio", atMost: 3 }, FLOOR_AGENT),
  createRow("tool-shell", "tool turn: runs a command", "ms", { comparison: "ratio", atMost: 3 }, FLOOR_AGENT),
  createRow("grep-5000", "tool turn: grep over 5,000 files", "ms", { comparison: "ratio", atMost: 3 }, "ripgrep"),
  createRow("glob-5000", "tool turn: glob over 5,000 files", "ms", { comparison: "ratio", atMost: 6 }, "ripgrep"),
  createRow("terminal-key", "a key in the terminal", "ms", { comparison: "value", atMost: 5 }, "floor terminal"),
  createRow("rss-idle", "RSS idle", "MB", { comparison: "value", atMost: 60 }, FLOOR_AGENT),
  createRow("rss-peak", "RSS peak", "MB", { comparison: "value", atMost: 100 }, FLOOR_AGENT),
  createRow(
    "serve-start",
    "`gantry serve`: spawn to the listen line",
    "ms",
    { comparison: "ratio", atMost: 3 },
    "`node -e ''`",
  ),
  createRow(
    "fresh-run",
    "fresh run over the direct request",
    "ms",
    { comparison: "difference", atMost: 4 },
    "direct request",
  ),
  createRow("slope", "slope per stored turn", "ms", { comparison: "value", atMost: 0.02 }, ""),
  createRow("runs-64", "fresh runs at 64 at once", "runs/s", { comparison: "value", atLeast: 400 }, "the model alone"),
  createRow(
    "runs-64-p99",
    "fresh runs at 64 at once, p99",
    "ms",
    { comparison: "value", atMost: 300 },
    "the model alone",
  ),
  createRow(
    "turns-64",
    "turns on stored sessions at 64 at once",
    "turns/s",
    { comparison: "value", atLeast: 600 },
    "the model alone",
  ),
  createRow(
    "turns-64-p99",
    "turns on stored sessions at 64 at once, p99",
    "ms",
    { comparison: "value", atMost: 300 },
    "the model alone",
  ),
  createRow("sse-20000", "20,000 tokens over SSE", "ms", { comparison: "ratio", atMost: 4 }, "reading the stream"),
  createRow(
    "watch-20",
    "20,000 tokens that 20 watch",
    "ms",
    { comparison: "ratio", atMost: 1.1 },
    "the same, unwatched",
  ),
  createRow(
    "token-cpu",
    "CPU per streamed token, 100 streams",
    "ms",
    { comparison: "value", atMost: 0.06 },
    "floor server",
  ),
  createRow(
    "first-token-100",
    "first token at 100 streams at once, p50",
    "ms",
    { comparison: "value", atMost: 200 },
    "floor server",
  ),
  createRow("health-500", "health beside 500 streams, p99", "ms", { comparison: "value", atMost: 50 }, "floor server"),
  createRow("list-100000", "list of 50 at 100,000 sessions", "ms", { comparison: "value", atMost: 1.2 }, ""),
  createRow(
    "newest-50000",
    "newest turn of a 50,000-message session",
    "ms",
    { comparison: "value", atMost: 100 },
    "reading it and asking",
  ),
  createRow(
    "json-runs",
    "JSON driver: fresh runs at 64 at once",
    "runs/s",
    { comparison: "ratio", atLeast: 0.5 },
    "SQLite driver",
  ),
  createRow("json-slope", "JSON driver: slope per stored turn", "ms", { comparison: "value", atMost: 0.02 }, ""),
  createPostgresRow("runs-1", "fresh runs, one at a time", "runs/s"),
  createPostgresRow("turns-1", "turns on a stored session, one at a time", "turns/s"),
  createPostgresRow("runs-64", "fresh runs at 64 at once", "runs/s"),
  createPostgresRow("turns-64", "turns on stored sessions at 64 at once", "turns/s"),
  createRow("pg-trips", "PostgreSQL: round trips of a turn", "round trips", { comparison: "value", atMost: 4 }, ""),
  createRow(
    "pg-trips-cold",
    "PostgreSQL: round trips of a turn after messages of another process",
    "round trips",
    { comparison: "value", atMost: 4 },
    "",
  ),
  createRow(
    "pg-bytes",
    "PostgreSQL: bytes of a turn on 10,000 messages",
    "bytes",
    { comparison: "ratio", atMost: 1.05 },
    "on one message",
  ),
  createRow(
    "pg-bytes-cold",
    "PostgreSQL: bytes of a message of another process",
    "bytes",
    { comparison: "ratio", atMost: 4 },
    "as the model is sent it",
  ),
];

/** Creates a row that compares PostgreSQL with SQLite. */
function createPostgresRow(id: string, title: string, unit: Row["unit"]): Row {
  return createRow(`pg-${id}`, `PostgreSQL: ${title}`, unit, { comparison: "ratio", atLeast: 0.5 }, "SQLite driver");
}

function createRow(id: string, title: string, unit: Row["unit"], goal: Goal, floor: string): Row {
  return { id, title, unit, goal, floor };
}

/** Returns a row by its id. Throws for an unknown id. */
export function getRow(id: string): Row {
  const matchingRow = ROWS.find((row) => row.id === id);
  if (!matchingRow)
    throw new Error(`no row is called ${id}; there are ${ROWS.map((knownRow) => knownRow.id).join(", ")}`);
  return matchingRow;
}

/** Formats the goal as text, for example `<= 3x`. */
export function formatGoal({ goal: { comparison, atMost, atLeast = 0 }, unit }: Row): string {
  const bound = atMost === undefined ? `>= ${atLeast}` : `<= ${atMost}`;
  return comparison === "ratio" ? `${bound}x` : `${comparison === "difference" ? "+ " : ""}${bound} ${unit}`;
}

/** Whether a compared value meets the goal of its row. NaN does not. */
export function meetsGoal({ goal: { atMost = Infinity, atLeast = -Infinity } }: Row, comparedValue: number): boolean {
  return comparedValue <= atMost && comparedValue >= atLeast;
}
