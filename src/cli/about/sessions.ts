import type { About } from "../about.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const list = {
  name: "sessions list",
  summary: "the sessions that are stored, last used first",
  usage: ["[options]"],
  flags: {
    search: { type: "string", value: "TEXT", about: "only those with this in their title" },
    folder: {
      type: "string",
      value: "FOLDER",
      about: "only those that work in this folder (. for this one)",
      completes: "folder",
    },
    limit: { type: "number", value: "COUNT", about: "so many at most; 0 for all (default 50)" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies About;

export const show = {
  name: "sessions show",
  summary: "what was said in a session",
  usage: ["ID [options]"],
  flags: {
    last: { type: "number", value: "COUNT", about: "only the last so many messages" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies About;

export const remove = {
  name: "sessions delete",
  summary: "delete sessions for good",
  usage: ["ID ... [options]"],
  flags: {
    yes: { type: "boolean", about: "without being asked; needed where there is no terminal" },
    ...CONFIG_FLAGS,
  },
  details: "A run that is under way in one of them is ended first.",
} as const satisfies About;

export const undo = {
  name: "sessions undo",
  summary: "take back what the last run of a session did, files too",
  usage: ["ID [options]"],
  flags: {
    to: { type: "string", value: "MESSAGE", about: "all behind the message of this id, which stays" },
    redo: { type: "boolean", about: "take the last undo back instead" },
    dryRun: { type: "boolean", about: "change nothing, and say what would be" },
    filesOnly: { type: "boolean", about: "what was said stays" },
    messagesOnly: { type: "boolean", about: "files stay as they are" },
    force: { type: "boolean", about: "overwrite what somebody else changed, leave what cannot be brought back" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
  details:
    "Files are as they were before gantry's own tools changed them. What commands, other programs and other machines did stays. " +
    "Where somebody else changed such a file since, or no copy of one is kept, nothing is undone without --force.",
} as const satisfies About;

export const exporting = {
  name: "sessions export",
  summary: "write sessions to stdout, as JSON lines",
  usage: ["[ID ...] [options]"],
  flags: {
    output: {
      type: "string",
      value: "FILE",
      about: "into this file, which is there when it is whole",
      completes: "file",
    },
    resume: { type: "boolean", about: "with --output: go on with an export that was broken off" },
    ...CONFIG_FLAGS,
  },
} as const satisfies About;

export const importing = {
  name: "sessions import",
  summary: "read them from stdin; what exists already is left out",
  usage: ["[options] < FILE"],
  flags: CONFIG_FLAGS,
} as const satisfies About;

export const sessions = {
  name: "sessions",
  summary: "list, show, undo, delete, export and import sessions",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { list, show, undo, delete: remove, export: exporting, import: importing },
} as const satisfies About;
