import type { PatchedFile, PatchJob } from "./edits/apply-chunks.js";
import type { EditedFile, EditJob } from "./edits/apply-edit.js";
import type { GlobsJob } from "./search/matching-globs.js";
import type { JsonFault, JsonJob } from "./json-errors.js";
import type { FileMatches, SearchJob } from "./search/line-search.js";
import type { JudgeJob, Judgement } from "./shell-rules/evaluate-call.js";
import type { PageJob, PageText } from "./html/page.js";
import type { Expression } from "./search/expression.js";
import type { SyntaxFault, SyntaxJob } from "./syntax-errors.js";
import type { SchemaAnswer, SchemaJob } from "./schema-check.js";

/** What a thread can be asked. */
export interface Jobs {
  /** Answered when its code is loaded. */
  ready: Record<string, never>;
  /** Text of a page, from an offset. */
  page: PageJob;
  /** Edit the text of a file. */
  edit: EditJob;
  /** Apply the pieces of a patch to the text of a file. */
  patch: PatchJob;
  /** Check a regular expression. */
  expression: Expression;
  /** Search lines of files. */
  search: SearchJob;
  /** Check a JSON Schema, and a value by it. */
  schema: SchemaJob;
  /** Hold a call against rules. */
  judge: JudgeJob;
  /** Where texts are no JSON. */
  json: JsonJob;
  /** Syntax errors of changed files. */
  syntax: SyntaxJob;
  /** Which globs fit one of some paths. */
  globs: GlobsJob;
}

export interface Answers {
  ready: null;
  page: PageText;
  edit: EditedFile | { refused: string };
  patch: PatchedFile | { refused: string };
  expression: { flags: string } | { refused: string };
  search: FileMatches[];
  schema: SchemaAnswer;
  judge: Judgement;
  json: (JsonFault | null)[];
  syntax: SyntaxFault[][];
  globs: boolean[];
}

/** What comes back from a thread. */
export type Reply = { answer: Answers[keyof Answers] } | { fault: string };
