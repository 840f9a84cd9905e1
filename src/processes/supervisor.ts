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
import { SUPERVISOR_SCRIPT } from "./supervisor-script.js";
import { MAX_WAITING_INPUT_BYTES, type InputResult } from "./job.js";
import { MARK_VARIABLE } from "../base/linux-processes.js";

/** Bytes per output file. The first file is kept, and the last three of the later files: 64 MiB in total. */
export const PART_BYTES = 16 * 1024 * 1024;

/** A program to start, and the text that the program reads on its fourth pipe before it does anything else. */
export interface DetachedProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly startupText: string;
}

/** A supervisor's record of itself. */
export interface DetachedRecord {
  readonly id: string;
  /** Command text on one line, without secrets. */
  readonly command: string;
  /** Start time, ISO 8601. */
  readonly since: string;
  readonly mark: string;
  readonly pid: number;
  /** Start time of the process, in clock ticks since the boot identified by `boot`. */
  readonly started: number;
  readonly boot: string;
}

/** The process that a supervisor started. */
export type DetachedChild = Pick<DetachedRecord, "pid" | "started">;

/**
 * Makes an Electron program run as Node; otherwise the program would open its windows. The supervisor removes the
 * variable.
 */
const ELECTRON_ENVIRONMENT = process.versions["electron"] === undefined ? {} : { ELECTRON_RUN_AS_NODE: "1" };
/** Interval in ms at which the start of a supervisor is checked. */
const START_POLL_MS = 10;

/** Starts a command that outlives this process, with its files in `folder`. Rejects if the command cannot start. */
export async function startDetached(
  folder: string,
  { id, command, program }: { id: string; command: string; program: DetachedProgram },
): Promise<void> {
  const { spawn } = await import("node:child_process");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const base = join(folder, id);
  const mark = newId();
  const record = JSON.stringify({ id, command, since: new Date().toISOString(), mark });
  const { file, args, cwd, env, startupText } = program;
  const supervisor = spawn(
    process.execPath,
    ["-e", SUPERVISOR_SCRIPT, base, record, String(PART_BYTES), cwd, file, ...args],
    {
      cwd: "/",
      env: { ...env, [MARK_VARIABLE]: mark, ...ELECTRON_ENVIRONMENT },
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    },
  );
  const failure = new Promise<never>((_resolve, reject) => {
    supervisor.once("error", reject);
    supervisor.once("exit", () => reject(new Error("the supervisor exited immediately")));
  });
  failure.catch(() => undefined);
  supervisor.stdin.on("error", () => undefined);
  supervisor.stdin.end(startupText);
  supervisor.unref();
  while (!existsSync(`${base}.json`))
    await Promise.race([failure, new Promise((resolve) => setTimeout(resolve, START_POLL_MS))]);
}

/** Reads the records of the supervisors in this folder, oldest first. */
export function readDetachedRecords(folder: string): DetachedRecord[] {
  return listNames(folder)
    .filter((name) => name.endsWith(".json"))
    .flatMap((name) => {
      try {
        const record: unknown = parseJson(readFileSync(join(folder, name), "utf8"));
        return isDetachedRecord(record) && `${record.id}.json` === name ? [record] : [];
      } catch {
        return [];
      }
    })
    .sort((left, right) => (left.since < right.since ? -1 : 1));
}

/** Reads the exit code and signal of a detached command. Undefined while it runs, or if its end was not recorded. */
export function readDetachedEnd(base: string): { code: number | null; signal: NodeJS.Signals | null } | undefined {
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

/** Records the signal that ended a command, if the supervisor could not record the end. */
export function recordEnd(base: string, signal: NodeJS.Signals): void {
  try {
    writeFileSync(`${base}.end`, JSON.stringify({ code: null, signal }), { mode: 0o600, flag: "wx" });
  } catch {
    // The end is already recorded, or the disk is full.
  }
}

/** Reads the process that a supervisor started. This process survives if only the supervisor is killed. */
export function readDetachedChild(base: string): DetachedChild | undefined {
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

/** Counts the bytes that a detached command has printed. */
export function countPrintedBytes(base: string): number {
  const lastPart = listNames(join(base, ".."))
    .filter((name) => name.startsWith(`${base.slice(base.lastIndexOf("/") + 1)}.`) && /\.\d+$/.test(name))
    .reduce((greatest, name) => Math.max(greatest, Number(/\d+$/.exec(name)?.[0])), 0);
  return lastPart * PART_BYTES + (statSync(`${base}.${lastPart}`, { throwIfNoEntry: false })?.size ?? 0);
}

/** Reads the output bytes from `start` to `end`, without the parts that were removed. */
export function readDetachedOutput(base: string, start: number, end: number): Buffer {
  const pieces: Buffer[] = [];
  for (let offset = start; offset < end;) {
    const part = Math.floor(offset / PART_BYTES);
    const partEnd = Math.min(end, (part + 1) * PART_BYTES);
    pieces.push(readPiece(`${base}.${part}`, offset - part * PART_BYTES, partEnd - offset));
    offset = partEnd;
  }
  return Buffer.concat(pieces);
}

function readPiece(path: string, offset: number, length: number): Buffer {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const buffer = Buffer.alloc(length);
    return buffer.subarray(0, readSync(fd, buffer, 0, length, offset));
  } catch {
    return Buffer.alloc(0);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Appends text to the command's standard input. `close`: no more input follows. */
export function writeToDetached(base: string, text: string, close: boolean): InputResult {
  if (existsSync(`${base}.eof`)) return "closed";
  const bytes = Buffer.byteLength(text);
  const waitingBytes = (statSync(`${base}.in`, { throwIfNoEntry: false })?.size ?? 0) - readNumber(`${base}.took`);
  if (waitingBytes > 0 && waitingBytes + bytes > MAX_WAITING_INPUT_BYTES) return "full";
  if (text !== "") appendFileSync(`${base}.in`, text, { mode: 0o600 });
  if (close) writeFileSync(`${base}.eof`, "", { mode: 0o600 });
  return "taken";
}

/** Reads the offset up to which the output has been read. */
export function loadReadOffset(base: string): number {
  return readNumber(`${base}.seen`);
}

function readNumber(path: string): number {
  return attempt(() => Number(readFileSync(path, "utf8")) || 0, 0);
}

/** Stores the read offset, also for a later gantry process. */
export function saveReadOffset(base: string, offset: number): void {
  try {
    writeFileSync(`${base}.seen`, String(offset), { mode: 0o600 });
  } catch {
    // The disk is full: the output is shown again.
  }
}

/** Removes all files of a detached command. */
export function removeDetached(base: string): void {
  const folder = join(base, "..");
  const name = base.slice(folder.length + 1);
  for (const fileName of listNames(folder))
    if (fileName.startsWith(`${name}.`)) rmSync(join(folder, fileName), { force: true });
}

/** Lists the names in a folder. Empty if the folder cannot be read. */
export function listNames(folder: string): string[] {
  return attempt(() => readdirSync(folder), []);
}

function isDetachedRecord(value: unknown): value is DetachedRecord {
  return (
    isRecord(value) &&
    ["id", "command", "since", "mark", "boot"].every((key) => typeof value[key] === "string") &&
    ["pid", "started"].every((key) => Number.isSafeInteger(value[key]) && Number(value[key]) > 1)
  );
}
