/** A scripted model's behaviour, independent of the wire and pure JSON: the same step runs on every wire. */

/** A tool call. A string as `arguments` is sent verbatim; any other value as JSON. */
export interface FakeCall {
  /** Default: a new id. */
  id?: string;
  name: string;
  arguments: unknown;
  /** Number of deltas for the arguments. Default 3, at most one for each character. */
  pieces?: number;
  /** A signature that the wire may attach to a call (Gemini). */
  signature?: string;
}

/** One piece of an answer. Headers are sent with the first piece that writes data. */
export type FakePiece =
  /** A string is one chunk; in an array, each entry is one chunk. */
  | { text: string | string[] }
  | { reasoning: string | string[]; signature?: string; redacted?: boolean }
  | { call: FakeCall }
  /** Parallel calls whose deltas are interleaved, if the wire permits that. */
  | { calls: FakeCall[] }
  | { refusal: string }
  /** Sends only headers and the wire's opening event. */
  | { open: true }
  /** Waits this time, in ms. */
  | { wait: number }
  /** Waits for `server.openGate(name)`. */
  | { gate: string }
  /** Sends an SSE comment line. */
  | { comment: string }
  /** Sends a text unchanged. */
  | { raw: string }
  /** Sends a chunk with invalid JSON; the answer continues after it. */
  | { malformed: true }
  /** Sends an error in the wire's own format during the stream. */
  | { error: FakeFault }
  /** Resets the connection; as the first piece, instead of an answer. */
  | { reset: true }
  /** Ends the HTTP response normally, but in the middle of the wire's answer. */
  | { cut: true }
  /** Sends nothing more until the client disconnects. */
  | { stall: true };

export interface FakeFault {
  message: string;
  type?: string;
  code?: string;
}

export interface FakeUsage {
  /** Includes cached tokens. */
  input: number;
  /** Includes reasoning tokens. */
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
  /** In US dollars, on wires that report it. */
  cost?: number;
}

export type FakeFinish = "stop" | "length" | "content_filter" | "tool_calls" | "refusal" | "none";

/** The answer to one request. */
export interface FakeStep {
  /** Time before anything is sent, in ms. */
  delay?: number;
  /** Other than 200: an error response with `error` in the wire's own format, or with `body` unchanged. */
  status?: number;
  headers?: Record<string, string>;
  error?: string | FakeFault;
  /**
   * A string is sent unchanged, with `text/html` if it starts with a tag, otherwise `text/plain`, unless `headers` has
   * a type. An object is sent as JSON.
   */
  body?: string | Record<string, unknown>;
  /** A very large body instead of an answer; also for the listing. */
  flood?: FakeFlood;
  say?: FakePiece[];
  /** Interrupts the answer after this share of its chunks (0 to 1, never after all), by a reset or by a normal end. */
  breaks?: { at: number; by: "reset" | "cut" };
  /** Time between two chunks, in ms. */
  pace?: number;
  /** Default: `tool_calls` if there was a call, otherwise `stop`. `none`: the stream ends without a reason. */
  finish?: FakeFinish;
  /** Default: an estimate. `null`: no usage is reported. */
  usage?: FakeUsage | null;
}

/** Raw bytes, as many as the client accepts. */
export interface FakeFlood {
  /** Content type. Default: `text/event-stream`. */
  type?: string;
  head?: string;
  /** Repeated text; `%d` in it counts from 0. */
  piece: string;
  /** Number of repetitions. Default: unlimited. */
  times?: number;
  tail?: string;
  /** Whether the body is compressed with gzip. */
  gzip?: boolean;
}

/** Creates a step that answers with a text. */
export function textStep(text: string | string[], stepFields: Omit<FakeStep, "say"> = {}): FakeStep {
  return { say: [{ text }], ...stepFields };
}

/** Creates a step that calls one tool. */
export function callStep(
  name: string,
  args: unknown,
  stepFields: Omit<FakeStep, "say"> & { id?: string } = {},
): FakeStep {
  const { id, ...step } = stepFields;
  return { say: [{ call: { name, arguments: args, ...(id === undefined ? {} : { id }) } }], ...step };
}

/** Creates a step that answers with an HTTP error. */
export function errorStep(status: number, error: string | FakeFault, headers: Record<string, string> = {}): FakeStep {
  return { status, error, headers };
}

export function getArgumentsText(call: FakeCall): string {
  return typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
}

/** Splits the arguments into the deltas of the stream. */
export function splitArguments(call: FakeCall): string[] {
  const text = getArgumentsText(call);
  if (text === "") return [];
  const count = Math.max(1, Math.min(call.pieces ?? 3, text.length));
  const pieces: string[] = [];
  for (let i = 0; i < count; i++) {
    pieces.push(text.slice(Math.floor((i * text.length) / count), Math.floor(((i + 1) * text.length) / count)));
  }
  return pieces;
}

export function hasCall(step: FakeStep): boolean {
  return (step.say ?? []).some((piece) => "call" in piece || "calls" in piece);
}

export function toChunks(chunks: string | string[]): string[] {
  return typeof chunks === "string" ? [chunks] : chunks;
}
