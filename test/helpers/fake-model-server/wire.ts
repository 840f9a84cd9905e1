import type { FakeFault, FakePiece, FakeStep, FakeUsage } from "./steps.js";

export type FakeWireName = "openai" | "openai-responses" | "anthropic" | "google";

/** Pieces that the server itself carries out. */
export type Control = Extract<
  FakePiece,
  { wait: number } | { gate: string } | { reset: true } | { cut: true } | { stall: true }
>;

/** A string is bytes to send, an object something to do. */
export type Frame = string | Control;

// Bodies are JSON of any shape until they are checked.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

/** How a strict server differs from its own specification: what more it takes, and what it says otherwise. */
export interface Dialect {
  /** Extra keys of the request. */
  body?: readonly string[];
  /** Extra keys of messages. */
  message?: readonly string[];
  /** A tool call comes in one piece, as of GLM. */
  wholeCalls?: boolean;
  /** Usage comes whether it was asked for or not. */
  usageAlways?: boolean;
}

export interface WireRequest {
  readonly path: string;
  readonly body: Json;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** One model protocol, from the provider's side. */
export interface FakeWire {
  readonly name: FakeWireName;
  matches(path: string): boolean;
  /** The first rule of the provider that the request breaks, in words. */
  violation(request: WireRequest, dialect: Dialect): string | undefined;
  facts(request: WireRequest): { model: string; stream: boolean; tools: string[] };
  /** The answer as a stream. */
  frames(step: FakeStep, request: WireRequest, ids: () => string, dialect: Dialect): Generator<Frame>;
  /** The answer in one piece. */
  whole(step: FakeStep, request: WireRequest, ids: () => string): Json;
  error(status: number, fault: FakeFault): Json;
  /** The key as this wire sends it. */
  key(request: Pick<WireRequest, "headers">): string | undefined;
}

export function event(data: Json, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** Usage to report when the script names none. */
export function estimate(request: WireRequest, step: FakeStep): FakeUsage {
  const said = JSON.stringify(step.say ?? []).length;
  return { input: Math.ceil(JSON.stringify(request.body).length / 4), output: Math.max(1, Math.ceil(said / 8)) };
}

/** Frames that mean the same on every wire; undefined for pieces that are the wire's own business. */
export function common(piece: FakePiece): Frame | undefined {
  if ("wait" in piece || "gate" in piece || "reset" in piece || "cut" in piece || "stall" in piece) return piece;
  if ("comment" in piece) return `: ${piece.comment}\n\n`;
  if ("raw" in piece) return piece.raw;
  if ("malformed" in piece) return 'data: {"choices":[{"delta":{"content":"bro\n\n';
  return undefined;
}

export function isObject(value: unknown): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The first key of `value` that is not among `known`. */
export function unknownKey(value: Record<string, unknown>, known: readonly string[]): string | undefined {
  return Object.keys(value).find((key) => !known.includes(key));
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

/** Of functions as Gemini takes them, which begin otherwise than those of others. */
export const FUNCTION_NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/;
export const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export function bearer({ headers }: Pick<WireRequest, "headers">): string | undefined {
  return /^Bearer (.+)$/.exec(String(headers.authorization ?? ""))?.[1];
}

/** A signature of reasoning, good for this wire and model alone. */
export function mint(wire: FakeWireName, model: string, id: string): string {
  return Buffer.from(`signed:${wire}:${model}:${id}`).toString("base64");
}

/** Why a signature was not made by this wire for this model; undefined when it was. */
export function minted(wire: FakeWireName, model: string, signature: unknown): string | undefined {
  if (typeof signature !== "string" || signature === "") return "no signature";
  const text = Buffer.from(signature, "base64").toString();
  return text.startsWith(`signed:${wire}:${model}:`) ? undefined : `made for ${text.slice(0, 60)}`;
}
