import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { isRecord, parseJson } from "../base/json.js";
import { newId } from "../base/ids.js";
import { KEEPER } from "./supervisor-script.js";
import { INPUT_BYTES, type Said } from "./job.js";
import { MARK } from "../base/linux-processes.js";

/** Of a command's output so many bytes are in a file; the first stays, and of those behind it the last three: 64 MiB. */
export const PART_BYTES = 16 * 1024 * 1024;

/** What is started, and what it is told on its fourth pipe before it does anything. */
export interface KeptProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly said: string;
}

/** What a keeper wrote down of itself. */
export interface KeptRecord {
  readonly id: string;
  /** One line, without secrets. */
  readonly command: string;
  /** ISO 8601. */
  readonly since: string;
  readonly mark: string;
  readonly pid: number;
  /** Clock ticks since the boot that `boot` names. */
  readonly started: number;
  readonly boot: string;
}

/** The process that a keeper started. */
export type KeptChild = Pick<KeptRecord, "pid" | "started">;

/** Makes a Node of the program of an Electron application, which would open its windows otherwise. The keeper takes it away. */
const NODE_ENVIRONMENT = process.versions["electron"] === undefined ? {} : { ELECTRON_RUN_AS_NODE: "1" };

/** Start a command that outlives this process, its files in `folder`. Rejects when it cannot start. */
export async function startKept(
  folder: string,
  { id, command, program }: { id: string; command: string; program: KeptProgram },
): Promise<void> {
  const { spawn } = await import("node:child_process");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const base = join(folder, id);
  const mark = newId();
  const record = JSON.stringify({ id, command, since: new Date().toISOString(), mark });
  const { file, args, cwd, env, said } = program;
  const keeper = spawn(process.execPath, ["-e", KEEPER, base, record, String(PART_BYTES), cwd, file, ...args], {
    cwd: "/",
    env: { ...env, [MARK]: mark, ...NODE_ENVIRONMENT },
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const failed = new Promise<never>((_resolve, reject) => {
    keeper.once("error", reject);
    keeper.once("exit", () => reject(new Error("its keeper ended at once")));
  });
  failed.catch(() => undefined);
  keeper.stdin.on("error", () => undefined);
  keeper.stdin.end(said);
  keeper.unref();
  while (!existsSync(`${base}.json`)) await Promise.race([failed, new Promise((resolve) => setTimeout(resolve, 10))]);
}

/** What keepers wrote down in this folder, oldest first. */
export function keptIn(folder: string): KeptRecord[] {
  return namesIn(folder)
    .filter((name) => name.endsWith(".json"))
    .flatMap((name) => {
      try {
        const record: unknown = parseJson(readFileSync(join(folder, name), "utf8"));
        return isKept(record) && `${record.id}.json` === name ? [record] : [];
      } catch {
        return [];
      }
    })
    .sort((a, b) => (a.since < b.since ? -1 : 1));
}

/** How a kept command ended; undefined while it did not, and where nobody saw it. */
export function endOfKept(base: string): { code: number | null; signal: NodeJS.Signals | null } | undefined {
  try {
    const end: unknown = parseJson(readFileSync(`${base}.end`, "utf8"));
    if (!isRecord(end)) return undefined;
    const { code, signal } = end;
    return {
      code: typeof code === "number" ? code : null,
      signal: typeof signal === "string" ? (signal as NodeJS.Signals) : null,
    };
  } catch {
    return undefined;
  }
}

/** Note how it ended, where its keeper could not. */
export function noteEnd(base: string, signal: NodeJS.Signals): void {
  try {
    writeFileSync(`${base}.end`, JSON.stringify({ code: null, signal }), { mode: 0o600, flag: "wx" });
  } catch {
    // It is there, or the disk is full.
  }
}

/** What a keeper started, which outlives a keeper that somebody ended. */
export function childOf(base: string): KeptChild | undefined {
  try {
    const child: unknown = parseJson(readFileSync(`${base}.child`, "utf8"));
    if (!isRecord(child)) return undefined;
    const { pid, started } = child;
    return Number.isSafeInteger(pid) && Number(pid) > 1 && Number.isSafeInteger(started)
      ? { pid: Number(pid), started: Number(started) }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes that a kept command printed so far. */
export function printedBy(base: string): number {
  const last = namesIn(join(base, ".."))
    .filter((name) => name.startsWith(`${base.slice(base.lastIndexOf("/") + 1)}.`) && /\.\d+$/.test(name))
    .reduce((most, name) => Math.max(most, Number(/\d+$/.exec(name)?.[0])), 0);
  return last * PART_BYTES + (statSync(`${base}.${last}`, { throwIfNoEntry: false })?.size ?? 0);
}

/** What it printed from one byte to another; of what is not there any more, nothing. */
export function readKept(base: string, from: number, to: number): Buffer {
  const pieces: Buffer[] = [];
  for (let at = from; at < to;) {
    const part = Math.floor(at / PART_BYTES);
    const end = Math.min(to, (part + 1) * PART_BYTES);
    pieces.push(readPiece(`${base}.${part}`, at - part * PART_BYTES, end - at));
    at = end;
  }
  return Buffer.concat(pieces);
}

function readPiece(path: string, at: number, length: number): Buffer {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const buffer = Buffer.alloc(length);
    return buffer.subarray(0, readSync(fd, buffer, 0, length, at));
  } catch {
    return Buffer.alloc(0);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Say something to a kept command's standard input, and whether more may follow. */
export function sayToKept(base: string, text: string, close: boolean): Said {
  if (existsSync(`${base}.eof`)) return "closed";
  const bytes = Buffer.byteLength(text);
  const waiting = (statSync(`${base}.in`, { throwIfNoEntry: false })?.size ?? 0) - numberIn(`${base}.took`);
  if (waiting > 0 && waiting + bytes > INPUT_BYTES) return "full";
  if (text !== "") appendFileSync(`${base}.in`, text, { mode: 0o600 });
  if (close) writeFileSync(`${base}.eof`, "", { mode: 0o600 });
  return "taken";
}

/** How far it was looked at. */
export function seenOf(base: string): number {
  return numberIn(`${base}.seen`);
}

function numberIn(path: string): number {
  return attempt(() => Number(readFileSync(path, "utf8")) || 0, 0);
}

/** Note how far it was looked at, for the next gantry too. */
export function saw(base: string, at: number): void {
  try {
    writeFileSync(`${base}.seen`, String(at), { mode: 0o600 });
  } catch {
    // The disk is full: it is shown again.
  }
}

/** Remove all files of one. */
export function forgetKept(base: string): void {
  const folder = join(base, "..");
  const name = base.slice(folder.length + 1);
  for (const one of namesIn(folder)) if (one.startsWith(`${name}.`)) rmSync(join(folder, one), { force: true });
}

export function namesIn(folder: string): string[] {
  return attempt(() => readdirSync(folder), []);
}

function isKept(value: unknown): value is KeptRecord {
  return (
    isRecord(value) &&
    ["id", "command", "since", "mark", "boot"].every((key) => typeof value[key] === "string") &&
    ["pid", "started"].every((key) => Number.isSafeInteger(value[key]) && Number(value[key]) > 1)
  );
}
