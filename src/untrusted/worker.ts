// Entry point of a worker thread. workers.ts sends its jobs and sets its limits.
import { parentPort } from "node:worker_threads";
import { patchText } from "./edits/apply-chunks.js";
import { editText } from "./edits/apply-edit.js";
import { compileExpression } from "./search/expression.js";
import type { Answers, Jobs, Reply } from "./jobs.js";
import { checkGlobs } from "./search/matching-globs.js";
import { findJsonFaults } from "./json-errors.js";
import { evaluateCall } from "./shell-rules/evaluate-call.js";
import { searchLines } from "./search/line-search.js";
import { extractPageText } from "./html/page.js";
import { extractPdfText } from "./pdf-text.js";

const handlers: { [Name in keyof Jobs]: (job: Jobs[Name]) => Answers[Name] | Promise<Answers[Name]> } = {
  ready: () => null,
  page: extractPageText,
  pdf: extractPdfText,
  edit: editText,
  patch: patchText,
  expression: compileExpression,
  search: searchLines,
  // Loaded on demand: the library is large and few calls need it.
  schema: async (job) => (await import("./schema-check.js")).checkSchema(job),
  judge: evaluateCall,
  syntax: async (job) => (await import("./syntax-errors.js")).findSyntaxFaults(job),
  json: findJsonFaults,
  globs: checkGlobs,
};

type JobRequest = { [Name in keyof Jobs]: { name: Name; job: Jobs[Name] } }[keyof Jobs];

async function answerJob(request: JobRequest): Promise<void> {
  let reply: Reply;
  try {
    const { name, job } = request;
    reply = { answer: await (handlers[name] as (input: typeof job) => Promise<Answers[typeof name]>)(job) };
  } catch (error) {
    reply = { errorMessage: error instanceof Error ? error.message : String(error) };
  }
  parentPort?.postMessage(reply);
}

parentPort?.on("message", (question: JobRequest) => void answerJob(question));
