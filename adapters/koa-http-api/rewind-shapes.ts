// Shapes of the routes that fork, rewind and undo, and of changed files.

import * as v from "valibot";
import { count, describe, oneOf, optional, string, text, time } from "./shape-builders.js";

const flag = optional(v.boolean());
const force = optional(describe(v.boolean(), "overwrite files that changed outside the session"));
const dryRun = optional(describe(v.boolean(), "only report the outcomes"));
const lineNumber = v.pipe(count, v.minValue(1));

export const ForkRequest = v.object({
  message_id: optional(text("the last message of the copy; default the newest message")),
});
export const RewindRequest = v.object({
  message_id: optional(text("the message that stays as the last one")),
  before_message_id: optional(text("the first message that is hidden; instead of message_id")),
  files: optional(describe(v.boolean(), "restore the files that tools changed since")),
  dry_run: dryRun,
  force,
});
export const UndoRequest = v.object({ dry_run: dryRun, files_only: flag, messages_only: flag, force });
export const RedoRequest = v.object({ dry_run: dryRun, force });
export const RestoreRequest = v.object({ snapshot_id: string });
export const Hunk = v.object({
  old_start: describe(lineNumber, "number of the first line in old_text; of an empty range, of the line after it"),
  old_lines: count,
  new_start: describe(lineNumber, "number of the first line in new_text; of an empty range, of the line after it"),
  new_lines: count,
});
export const UndoChangeRequest = v.object({
  path: text("path of the changed file"),
  run_id: optional(text("only the changes of this run; default all changes of the session")),
  version: optional(text("version of the file that the user saw; another content is a conflict")),
  hunk: optional(describe(Hunk, "only these lines; requires version")),
  dry_run: dryRun,
  force: optional(describe(v.boolean(), "overwrite changes of other programs and of later runs")),
});

export const UndoneFile = v.object({
  path: string,
  outcome: oneOf(["restored", "recreated", "removed", "conflict", "lost", "failed"]),
  reason: text('reason for conflict, lost and failed; else ""'),
});
export const UndoResult = v.object({
  files: describe(v.array(UndoneFile), "the files whose content differs from the target"),
  snapshot_id: text('snapshot of the hidden messages, for restore; "" if none were hidden'),
  last_message_id: text('the last message that remains; "" if none remains'),
});
export const UndoConflict = v.object({
  error: string,
  code: v.literal("undo_conflict"),
  files: describe(v.array(UndoneFile), "the conflicts and the other files; nothing was changed"),
});
export const Restored = v.object({
  snapshot_id: text('snapshot of the messages that were hidden now; "" if there were none'),
});
export const Snapshot = v.object({
  id: string,
  after: describe(count, "seq of the message after which the hidden messages start"),
  created_at: time("time of the rewind"),
});
export const SnapshotList = v.object({ snapshots: v.array(Snapshot) });

export const ChangedFile = v.object({
  path: string,
  kind: oneOf(["created", "changed", "deleted"]),
  run_ids: describe(v.array(string), "runs that changed the file, oldest first"),
  old_text: describe(v.nullable(string), "null if there was no file, or if omitted is set"),
  new_text: describe(v.nullable(string), "null if there is no file, or if omitted is set"),
  omitted: describe(
    oneOf(["", "binary", "too_large", "lost"]),
    'reason why the texts are absent: no UTF-8 text, more than 256 KiB, no stored copy; "" if they are present',
  ),
  version: text('identifies the new content; "" if there is none or it is unknown'),
  added: describe(v.nullable(count), "added lines; null without texts"),
  removed: describe(v.nullable(count), "removed lines; null without texts"),
});
export const ChangedFileList = v.object({
  files: v.array(ChangedFile),
  total: count,
  page: count,
  size: count,
  can_undo: describe(v.boolean(), "false if session.rewind disables undo"),
});

export const GitState = v.object({
  project_dir: describe(string, "the folder"),
  branch: describe(v.nullable(string), "null without a repository, and for a detached commit"),
  commit: describe(v.nullable(string), "the current commit; null without a repository or commit"),
  detached: v.boolean(),
  dirty: describe(count, "changed and untracked files in the folder"),
  ahead: describe(v.nullable(count), "commits that the upstream branch lacks; null without an upstream branch"),
  behind: describe(v.nullable(count), "commits of the upstream branch that the branch lacks"),
});

/** Messages to hide, with or without the changed files. */
export type RewindRequest = v.InferInput<typeof RewindRequest>;
/** The lines of a file to undo. */
export type ApiHunk = v.InferOutput<typeof Hunk>;
/** The outcome of an undo for one file. */
export type ApiUndoneFile = v.InferOutput<typeof UndoneFile>;
/** The result of a rewind, undo or redo. */
export type ApiUndoResult = v.InferOutput<typeof UndoResult>;
/** The end of a conversation that a rewind has hidden. */
export type ApiSnapshot = v.InferOutput<typeof Snapshot>;
/** A file that tools of a session changed. */
export type ApiChangedFile = v.InferOutput<typeof ChangedFile>;
/** A page of changed files. */
export type ChangedFileList = v.InferOutput<typeof ChangedFileList>;
/** The branch and state of a Git repository. */
export type GitState = v.InferOutput<typeof GitState>;
