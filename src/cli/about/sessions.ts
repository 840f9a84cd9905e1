import type { CommandDescription } from "../about.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const list = {
  name: "sessions list",
  summary: "list the stored sessions, last used first",
  usage: ["[options]"],
  flags: {
    search: { type: "string", value: "TEXT", about: "only sessions whose title contains this" },
    folder: {
      type: "string",
      value: "FOLDER",
      about: "only sessions of this folder (. for the current one)",
      completes: "folder",
    },
    limit: { type: "number", value: "COUNT", about: "maximum number; 0 for all (default 50)" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const show = {
  name: "sessions show",
  summary: "show the messages of a session",
  usage: ["ID [options]"],
  flags: {
    last: { type: "number", value: "COUNT", about: "only this many of the last messages" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const remove = {
  name: "sessions delete",
  summary: "delete sessions for good",
  usage: ["ID ... [options]"],
  flags: {
    yes: { type: "boolean", about: "do not ask for confirmation; required without a terminal" },
    ...CONFIG_FLAGS,
  },
  details: "Active runs of these sessions are cancelled first.",
} as const satisfies CommandDescription;

export const undo = {
  name: "sessions undo",
  summary: "undo the last run of a session, including its file changes",
  usage: ["ID [options]"],
  flags: {
    to: { type: "string", value: "MESSAGE", about: "undo everything after the message with this id" },
    redo: { type: "boolean", about: "reverse the last undo instead" },
    dryRun: { type: "boolean", about: "change nothing; report what would change" },
    filesOnly: { type: "boolean", about: "restore files only; keep the messages" },
    messagesOnly: { type: "boolean", about: "undo messages only; keep the files" },
    force: { type: "boolean", about: "overwrite later changes; skip files that cannot be restored" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
  details:
    "Files are restored to their content before gantry's own tools changed them. Changes by commands, other programs and other machines remain. " +
    "If such a file was changed afterwards, or no copy of it is stored, nothing is undone without --force.",
} as const satisfies CommandDescription;

export const exporting = {
  name: "sessions export",
  summary: "write sessions to stdout, as JSON lines",
  usage: ["[ID ...] [options]"],
  flags: {
    output: {
      type: "string",
      value: "FILE",
      about: "write to this file; it appears when the export is complete",
      completes: "file",
    },
    resume: { type: "boolean", about: "with --output: continue an interrupted export" },
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const importing = {
  name: "sessions import",
  summary: "import sessions from stdin; existing ones are skipped",
  usage: ["[options] < FILE"],
  flags: CONFIG_FLAGS,
} as const satisfies CommandDescription;

export const sessions = {
  name: "sessions",
  summary: "list, show, undo, delete, export and import sessions",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { list, show, undo, delete: remove, export: exporting, import: importing },
} as const satisfies CommandDescription;
