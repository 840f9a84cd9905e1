import { isRecord } from "../base/json.js";

/** What a session was told of the place that it works in. */
export interface Surroundings {
  /** `2026-01-31`, of this machine. */
  readonly day: string;
  /** Absolute path of the folder that it was told of. */
  readonly folder: string;
  /** Branch and state of the repository; `""`: it is none, or that is not told. */
  readonly git: string;
  /** The top of the project folder; `""`: it is not told. */
  readonly tree: string;
}

/** Bounds of what a store may give back. */
const MOST = { folder: 4_096, git: 600, tree: 2_400 } as const;

/** Today, as a session is told of it: by the day, so that what stands before every message stays the same. */
export function today(now = new Date()): string {
  const two = (number: number) => String(number).padStart(2, "0");
  return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
}

/** What a store gave back, where it is what was stored. */
export function asSurroundings(value: unknown): Surroundings | undefined {
  if (!isRecord(value)) return undefined;
  const { day, folder, git, tree } = value;
  const isOne =
    typeof day === "string" &&
    /^\d{4}-\d\d-\d\d$/.test(day) &&
    isText(folder, MOST.folder) &&
    isText(git, MOST.git) &&
    isText(tree, MOST.tree);
  return isOne ? { day, folder: folder as string, git: git as string, tree: tree as string } : undefined;
}

function isText(value: unknown, most: number): value is string {
  return typeof value === "string" && value.length <= most;
}
