import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, FILE_VALUE, JSON_FLAG } from "./flags.js";

export const list = {
  name: "sessions list",
  summary: "list the stored sessions, last used first",
  usage: ["[options]"],
  flags: {
    search: { type: "string", value: "TEXT", description: "only sessions whose title contains this" },
    folder: {
      type: "string",
      value: "FOLDER",
      description: "only sessions of this folder (. for the current one)",
      completionKind: "folder",
    },
    archived: { type: "boolean", description: "archived sessions only" },
    limit: { type: "number", value: "COUNT", description: "maximum number; 0 for all (default 50)" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const search = {
  name: "sessions search",
  summary: "find messages by their words, in all sessions",
  usage: ["TEXT ... [options]"],
  flags: {
    folder: {
      type: "string",
      value: "FOLDER",
      description: "only sessions of this folder (. for the current one)",
      completionKind: "folder",
    },
    archived: { type: "boolean", description: "archived sessions only" },
    limit: { type: "number", value: "COUNT", description: "maximum number; 0 for all (default 20)" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const show = {
  name: "sessions show",
  summary: "show the messages of a session",
  usage: ["ID [options]"],
  flags: {
    last: { type: "number", value: "COUNT", description: "only this many of the last messages" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const remove = {
  name: "sessions delete",
  summary: "delete sessions for good",
  usage: ["ID ... [options]"],
  flags: {
    yes: { type: "boolean", description: "do not ask for confirmation; required without a terminal" },
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const archive = {
  name: "sessions archive",
  summary: "hide sessions from lists",
  usage: ["ID ... [options]"],
  flags: CONFIG_FLAGS,
} as const satisfies CommandDescription;

export const unarchive = {
  ...archive,
  name: "sessions unarchive",
  summary: "list archived sessions again",
} as const satisfies CommandDescription;

export const undo = {
  name: "sessions undo",
  summary: "undo the last run of a session, including its file changes",
  usage: ["ID [options]"],
  flags: {
    to: { type: "string", value: "MESSAGE", description: "undo everything after the message with this id" },
    redo: { type: "boolean", description: "reverse the last undo instead" },
    dryRun: { type: "boolean", description: "change nothing; report what would change" },
    filesOnly: { type: "boolean", description: "restore files only; keep the messages" },
    messagesOnly: { type: "boolean", description: "undo messages only; keep the files" },
    force: { type: "boolean", description: "overwrite later changes; skip files that cannot be restored" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const apply = {
  name: "sessions apply",
  summary: "copy the changes of a session's worktree to its project folder",
  usage: ["ID [options]"],
  flags: {
    dryRun: { type: "boolean", description: "change nothing; report what would change" },
    ...JSON_FLAG,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const exportDescription = {
  name: "sessions export",
  summary: "write sessions to stdout, as JSON lines",
  usage: ["[ID ...] [options]"],
  flags: {
    output: { ...FILE_VALUE, description: "write to this file; it appears when the export is complete" },
    resume: { type: "boolean", description: "with --output: continue an interrupted export" },
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;

export const importDescription = {
  name: "sessions import",
  summary: "import sessions from stdin; existing ones are skipped",
  usage: ["[options] < FILE"],
  flags: CONFIG_FLAGS,
} as const satisfies CommandDescription;

export const sessions = {
  name: "sessions",
  summary: "list, search, show, archive, undo, apply, delete, export and import sessions",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: {
    ...{ list, show, archive, unarchive, undo, apply, delete: remove },
    ...{ export: exportDescription, import: importDescription, search },
  },
} as const satisfies CommandDescription;
