import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

const { config } = CONFIG_FLAGS;

export const add = {
  name: "token add",
  summary: "create a token for a user and print it once",
  usage: ["NAME [options]"],
  flags: {
    scope: {
      type: "string",
      isMultiple: true,
      value: "SCOPE",
      choices: ["read", "run", "approve", "admin"],
      description: "what the user may do, may be repeated (default read, run, approve)",
    },
    expires: { type: "string", value: "TIME", description: "a duration such as 30d or 12h, or a date (default never)" },
    projectRoot: {
      type: "string",
      isMultiple: true,
      value: "FOLDER",
      description: "a folder in which the user may work, may be repeated (default all that are served)",
      completionKind: "folder",
    },
    dailyBudget: { type: "number", value: "USD", description: "maximum cost of a day (UTC)" },
    rate: { type: "number", value: "COUNT", description: "maximum number of requests in a minute" },
    config,
  },
} as const satisfies CommandDescription;

export const list = {
  name: "token list",
  summary: "list the users and what they may do",
  usage: ["[options]"],
  flags: { ...JSON_FLAG, config },
} as const satisfies CommandDescription;

export const revoke = {
  name: "token revoke",
  summary: "revoke the token of a user; running servers end the user's streams at once",
  usage: ["NAME [options]"],
  flags: { config },
} as const satisfies CommandDescription;

export const token = {
  name: "token",
  summary: "tokens of users of a server",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { add, list, revoke },
} as const satisfies CommandDescription;
