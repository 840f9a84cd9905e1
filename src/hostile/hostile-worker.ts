// Runs in a thread of its own; what it does and under which limits is told in threads.ts.
import { parentPort } from "node:worker_threads";
import { patchText } from "./apply-chunks.js";
import { editText } from "./apply-edit.js";
import { compileExpression } from "./expression.js";
import type { Answers, Jobs, Reply } from "./jobs.js";
import { fittingGlobs } from "./fitting-globs.js";
import { jsonFaults } from "./json-fault.js";
import { judgeCall } from "./judge-call.js";
import { searchLines } from "./line-search.js";
import { pageText } from "./page.js";

const work: { [Name in keyof Jobs]: (job: Jobs[Name]) => Answers[Name] | Promise<Answers[Name]> } = {
  ready: () => null,
  page: pageText,
  edit: editText,
  patch: patchText,
  expression: compileExpression,
  search: searchLines,
  // Its library is large, and few calls need it.
  schema: async (job) => (await import("./schema-check.js")).checkSchema(job),
  judge: judgeCall,
  syntax: async (job) => (await import("./syntax-faults.js")).syntaxFaults(job),
  json: jsonFaults,
  globs: fittingGlobs,
};

type Question = { [Name in keyof Jobs]: { name: Name; job: Jobs[Name] } }[keyof Jobs];

async function answer(question: Question): Promise<void> {
  let reply: Reply;
  try {
    const { name, job } = question;
    reply = { answer: await (work[name] as (given: typeof job) => Promise<Answers[typeof name]>)(job) };
  } catch (error) {
    reply = { fault: error instanceof Error ? error.message : String(error) };
  }
  parentPort?.postMessage(reply);
}

parentPort?.on("message", (question: Question) => void answer(question));
