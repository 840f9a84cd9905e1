import type { FakeFault, FakePiece, FakeStep, FakeUsage } from "./steps.js";

export type FakeWireName = "openai" | "openai-responses" | "anthropic" | "google";

/** Pieces that the server itself executes. */
export type ControlFrame = Extract<
  FakePiece,
  { wait: number } | { gate: string } | { reset: true } | { cut: true } | { stall: true }
>;

/** A string is bytes to send, an object is an action. */
export type Frame = string | ControlFrame;

// Bodies are JSON of any shape until they are checked.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

/** Differences of a strict server from its specification: additional accepted keys, and different output. */
export interface Dialect {
  /** Additional accepted keys of the request. */
  body?: readonly string[];
  /** Additional accepted keys of messages. */
  message?: readonly string[];
  /** Sends a tool call in one piece, as GLM does. */
  wholeCalls?: boolean;
  /** Sends usage even if it was not requested. */
  usageAlways?: boolean;
  /** Accepts thinking blocks without a valid signature, as servers of other models than Claude do. */
  acceptsUnsignedThinking?: boolean;
}

export interface WireRequest {
  readonly path: string;
  readonly body: Json;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A model protocol, from the provider's side. */
export interface FakeWire {
  readonly name: FakeWireName;
  matches(path: string): boolean;
  /** The first rule of the provider that the request violates, as an error message; undefined for a valid request. */
  findViolation(request: WireRequest, dialect: Dialect): string | undefined;
  /** Model id, whether a stream is requested, and names of the offered tools; defaults if the body is invalid. */
  readFacts(request: WireRequest): { model: string; stream: boolean; tools: string[] };
  /** The answer as a stream. */
  createFrames(step: FakeStep, request: WireRequest, createId: () => string, dialect: Dialect): Generator<Frame>;
  /** The answer without streaming. */
  createCompleteAnswer(step: FakeStep, request: WireRequest, createId: () => string): Json;
  createError(status: number, fault: FakeFault): Json;
  /** The API key in a request of this wire; undefined if there is none. */
  readApiKey(request: Pick<WireRequest, "headers">): string | undefined;
}

/** A server-sent event with JSON data. */
export function formatEvent(data: Json, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** Usage to report if the script has none: a rough estimate from the sizes of the request and the script. */
export function estimateUsage(request: WireRequest, step: FakeStep): FakeUsage {
  const answerCharacters = JSON.stringify(step.say ?? []).length;
  return {
    input: Math.ceil(JSON.stringify(request.body).length / 4),
    output: Math.max(1, Math.ceil(answerCharacters / 8)),
  };
}

/** Frames that are the same on every wire; undefined for wire-specific pieces. */
export function toCommonFrame(piece: FakePiece): Frame | undefined {
  if ("wait" in piece || "gate" in piece || "reset" in piece || "cut" in piece || "stall" in piece) return piece;
  if ("comment" in piece) return `: ${piece.comment}\n\n`;
  if ("raw" in piece) return piece.raw;
  if ("malformed" in piece) return 'data: {"choices":[{"delta":{"content":"bro\n\n';
  return undefined;
}

export function isObject(value: unknown): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The first key of `value` that is not a known key. */
export function findUnknownKey(value: Record<string, unknown>, knownKeys: readonly string[]): string | undefined {
  return Object.keys(value).find((key) => !knownKeys.includes(key));
}

export function isJsonObject(text: unknown): boolean {
  if (typeof text !== "string") return false;
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}

export function isBase64(text: unknown): text is string {
  return typeof text === "string" && text !== "" && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

/** Function names that Gemini accepts; their first character differs from other wires. */
export const GEMINI_FUNCTION_NAME_PATTERN = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/;
export const TOOL_NAME_PATTERN = /^[a-zA-Z0-9_-]{1,64}$/;

export function readBearerToken({ headers }: Pick<WireRequest, "headers">): string | undefined {
  return /^Bearer (.+)$/.exec(String(headers.authorization ?? ""))?.[1];
}

/** A reasoning signature that is valid only for this wire and model. */
export function createSignature(wire: FakeWireName, model: string, id: string): string {
  return Buffer.from(`signed:${wire}:${model}:${id}`).toString("base64");
}

/** Why a signature is not valid for this wire and model; undefined if it is. */
export function findSignatureFault(wire: FakeWireName, model: string, signature: unknown): string | undefined {
  if (typeof signature !== "string" || signature === "") return "no signature";
  const text = Buffer.from(signature, "base64").toString();
  return text.startsWith(`signed:${wire}:${model}:`) ? undefined : `made for ${text.slice(0, 60)}`;
}
