// Shapes of the routes of worktrees.

import * as v from "valibot";
import { describe, oneOf, optional, string, text } from "./shape-builders.js";

export const Worktree = v.object({
  folder: text("absolute path of the folder in which the session works"),
  project_dir: text("absolute path of the project folder of which it is a copy"),
  base: text("id of the copied commit"),
});
export const SessionWorktree = v.object({
  worktree: describe(v.nullable(Worktree), "null if the session works in its project folder"),
});
export const ApplyRequest = v.object({
  dry_run: optional(describe(v.boolean(), "only report the files")),
});
export const WorktreeFile = v.object({
  path: text("absolute path in the project folder"),
  change: oneOf(["added", "changed", "deleted"]),
  reason: text('reason for a conflict; else ""'),
});
export const Applied = v.object({
  files: describe(v.array(WorktreeFile), "the files that differed since the last call"),
});
export const WorktreeConflict = v.object({
  error: string,
  code: v.literal("worktree_conflict"),
  files: describe(v.array(WorktreeFile), "the conflicts and the other files; nothing was changed"),
});

/** A Git worktree in which a session works. */
export type ApiWorktree = v.InferOutput<typeof Worktree>;
/** A file that differs between a worktree and its project folder. */
export type ApiWorktreeFile = v.InferOutput<typeof WorktreeFile>;
