/**
 * A permission of a user.
 * - `read`: see the user's own sessions and shared ones, with their runs and questions.
 * - `run`: start and steer runs, change and delete sessions, answer questions of tools.
 * - `approve`: decide about tool calls, and do what is reserved for people: allow more in a mode, run shell commands.
 * - `admin`: all of this for the sessions of all users, and settings of the server such as logins to MCP servers.
 */
export type UserScope = "read" | "run" | "approve" | "admin";

/** A user for whom an agent acts. */
export interface User {
  /** Unique among the users of a store. */
  readonly name: string;
  /** `admin` includes all other scopes. */
  readonly scopes: readonly UserScope[];
  /** Folders in which the user's runs may work, with their subfolders. Absolute paths. Undefined: all that are served. */
  readonly projectRoots?: readonly string[] | undefined;
  /** Maximum cost of the user's runs that start on one day (UTC), in USD. Undefined: no limit. */
  readonly dailyBudget?: number | undefined;
}
