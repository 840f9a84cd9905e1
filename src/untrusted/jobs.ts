import type { PatchedFile, PatchJob } from "./edits/apply-chunks.js";
import type { EditedFile, EditJob } from "./edits/apply-edit.js";
import type { GlobsJob } from "./search/matching-globs.js";
import type { JsonFault, JsonJob } from "./json-errors.js";
import type { FileMatches, SearchJob } from "./search/line-search.js";
import type { CallEvaluationJob, CallEvaluation } from "./shell-rules/evaluate-call.js";
import type { PageJob, PageText } from "./html/page.js";
import type { PdfJob, PdfText } from "./pdf-text.js";
import type { Expression } from "./search/expression.js";
import type { SyntaxFault, SyntaxJob } from "./syntax-errors.js";
import type { SchemaAnswer, SchemaJob } from "./schema-check.js";

/** Jobs of a worker thread, by name. */
export interface Jobs {
  /** Waits until the thread's code is loaded. */
  ready: Record<string, never>;
  /** Text of a page, from an offset. */
  page: PageJob;
  /** Text of the pages of a PDF. */
  pdf: PdfJob;
  /** Edits the text of a file. */
  edit: EditJob;
  /** Applies the chunks of a patch to a file. */
  patch: PatchJob;
  /** Checks a regular expression. */
  expression: Expression;
  /** Searches lines of files. */
  search: SearchJob;
  /** Checks a JSON Schema, and a value against it. */
  schema: SchemaJob;
  /** Evaluates a tool call by permission rules. */
  judge: CallEvaluationJob;
  /** Finds new JSON errors in changed files. */
  json: JsonJob;
  /** Finds new syntax errors in changed files. */
  syntax: SyntaxJob;
  /** Checks which globs match at least one of the paths. */
  globs: GlobsJob;
}

export interface Answers {
  ready: null;
  page: PageText;
  pdf: PdfText;
  edit: EditedFile | { errorMessage: string };
  patch: PatchedFile | { errorMessage: string };
  expression: { flags: string } | { errorMessage: string };
  search: FileMatches[];
  schema: SchemaAnswer;
  judge: CallEvaluation;
  /** For each file: its new error, or null if there is none. */
  json: (JsonFault | null)[];
  /** For each file: its new errors. */
  syntax: SyntaxFault[][];
  globs: boolean[];
}

/** A thread's reply: the answer, or an error message of the failed job. */
export type Reply = { answer: Answers[keyof Answers] } | { errorMessage: string };
