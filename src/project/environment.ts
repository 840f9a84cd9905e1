import { isRecord } from "../base/json.js";

/** The environment description that a session was started with. */
export interface Environment {
  /** Local date of this machine, as in `2026-01-31`. */
  readonly day: string;
  /** Absolute path of the project folder. */
  readonly folder: string;
  /** Branch and state of the Git repository. `""`: no repository, or not reported to the model. */
  readonly git: string;
  /** Top levels of the project folder. `""`: not reported to the model. */
  readonly tree: string;
}

/** Maximum lengths of stored values, in characters. */
const MAX_CHARACTERS_BY_FIELD = { folder: 4_096, git: 600, tree: 2_400 } as const;

/**
 * Returns the local date for the environment description. Only the day, so that the prompt prefix stays the same for
 * the prompt cache.
 */
export function formatToday(now = new Date()): string {
  const padToTwo = (number: number) => String(number).padStart(2, "0");
  return `${now.getFullYear()}-${padToTwo(now.getMonth() + 1)}-${padToTwo(now.getDate())}`;
}

/** Parses a stored environment. Undefined if the value is invalid. */
export function parseEnvironment(value: unknown): Environment | undefined {
  if (!isRecord(value)) return undefined;
  const { day, folder, git, tree } = value;
  const isValid =
    typeof day === "string" &&
    /^\d{4}-\d\d-\d\d$/.test(day) &&
    isText(folder, MAX_CHARACTERS_BY_FIELD.folder) &&
    isText(git, MAX_CHARACTERS_BY_FIELD.git) &&
    isText(tree, MAX_CHARACTERS_BY_FIELD.tree);
  return isValid ? { day, folder: folder as string, git: git as string, tree: tree as string } : undefined;
}

function isText(value: unknown, maxCharacters: number): value is string {
  return typeof value === "string" && value.length <= maxCharacters;
}
