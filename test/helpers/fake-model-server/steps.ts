/** What a scripted model does, free of any wire, and all of it JSON: the same step runs on every wire. */

/** A tool call. `arguments` that are a string go out verbatim, whatever they hold; anything else as its JSON. */
export interface FakeCall {
  /** Left out: a fresh one. */
  id?: string;
  name: string;
  arguments: unknown;
  /** In how many deltas the arguments are streamed. Default 3, never more than there are characters. */
  pieces?: number;
  /** A signature that the wire may bind to a call (Gemini). */
  signature?: string;
}

/** One thing that happens in an answer. Headers go out with the first piece that writes something. */
export type FakePiece =
  /** A string is one chunk; of an array, each entry is one. */
  | { text: string | string[] }
  | { reasoning: string | string[]; signature?: string; redacted?: boolean }
  | { call: FakeCall }
  /** Parallel calls whose deltas are interleaved, where the wire allows that. */
  | { calls: FakeCall[] }
  | { refusal: string }
  /** Send headers and the wire's opening event, and nothing else yet. */
  | { open: true }
  /** Milliseconds of silence. */
  | { wait: number }
  /** Silence until `server.open(name)`. */
  | { gate: string }
  /** An SSE comment line. */
  | { comment: string }
  /** Bytes as they are. */
  | { raw: string }
  /** A chunk that is no JSON; the answer goes on behind it. */
  | { malformed: true }
  /** An error in mid-stream, in the wire's own shape. */
  | { error: FakeFault }
  /** The connection is reset; before any other piece: instead of an answer. */
  | { reset: true }
  /** The answer ends here, orderly on the level of HTTP, in the middle on the level of the wire. */
  | { cut: true }
  /** Nothing more comes until the client leaves. */
  | { stall: true };

export interface FakeFault {
  message: string;
  type?: string;
  code?: string;
}

export interface FakeUsage {
  /** Cached ones included. */
  input: number;
  /** Reasoning included. */
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
  /** USD, on wires that tell it. */
  cost?: number;
}

export type FakeFinish = "stop" | "length" | "content_filter" | "tool_calls" | "refusal" | "none";

/** The answer to one request. */
export interface FakeStep {
  /** Milliseconds before anything is sent. */
  delay?: number;
  /** Other than 200: an error answer with `error` in the wire's own shape, or `body` as it is. */
  status?: number;
  headers?: Record<string, string>;
  error?: string | FakeFault;
  /** A string goes out as it is (set `content-type` yourself; default `text/html` when it looks so), an object as JSON. */
  body?: string | Record<string, unknown>;
  /** A body beyond all measure, instead of an answer; also of a listing. */
  flood?: FakeFlood;
  say?: FakePiece[];
  /** Where the answer ends before its end: behind this share of its chunks (0 to 1, never behind all), by a reset or in order. */
  breaks?: { at: number; by: "reset" | "cut" };
  /** Milliseconds between two chunks. */
  pace?: number;
  /** Default: `tool_calls` when there was a call, else `stop`. `none`: the stream ends without saying why. */
  finish?: FakeFinish;
  /** Default: estimated. `null`: none is reported. */
  usage?: FakeUsage | null;
}

/** Bytes as they are, as many as the client takes. */
export interface FakeFlood {
  /** Content type. Default `text/event-stream`. */
  type?: string;
  head?: string;
  /** Said again and again; `%d` in it counts from 0. */
  piece: string;
  /** How often. Default without end. */
  times?: number;
  tail?: string;
  /** Whether it is sent as gzip. */
  gzip?: boolean;
}

/** Short forms. */
export function say(text: string | string[], rest: Omit<FakeStep, "say"> = {}): FakeStep {
  return { say: [{ text }], ...rest };
}

export function call(name: string, args: unknown, rest: Omit<FakeStep, "say"> & { id?: string } = {}): FakeStep {
  const { id, ...step } = rest;
  return { say: [{ call: { name, arguments: args, ...(id === undefined ? {} : { id }) } }], ...step };
}

export function fail(status: number, error: string | FakeFault, headers: Record<string, string> = {}): FakeStep {
  return { status, error, headers };
}

export function argumentsText(call: FakeCall): string {
  return typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
}

/** The arguments cut into the deltas that are streamed. */
export function argumentPieces(call: FakeCall): string[] {
  const text = argumentsText(call);
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

export function textOf(chunks: string | string[]): string[] {
  return typeof chunks === "string" ? [chunks] : chunks;
}
