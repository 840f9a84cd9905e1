import { dirname, resolve } from "node:path";
import { cutMiddle } from "../../base/cut-text.js";
import { newId } from "../../base/ids.js";
import { escapeInvisible } from "../../base/printable.js";
import { CLEARED_NOTE } from "../../compaction/fit.js";
import type { SessionWork } from "../../compaction/attached-state.js";
import { findInstructionVersion, INSTRUCTION_PREFIX, type StateChanges } from "../../conversation/conversation.js";
import { textOf, toolCalls } from "../../conversation/messages.js";
import { RunCancelledError } from "../../ports/errors.js";
import type { ModelMessage } from "../../ports/message.js";
import type { ToolContext } from "../../ports/tool.js";
import { formatInstruction, limitInstructions } from "../../project/instructions.js";
import { SKILL_KEY_PREFIX } from "../../tools/agent/skill.js";
import { listByTime, listChangedFiles } from "../../tools/files/changed-files.js";
import type { RunContext } from "../context/run-context.js";
import { evaluate } from "../permissions/evaluate.js";
import { computeVersion, INSTRUCTIONS_HEADER } from "../prompt/nested-instructions.js";
import { applyAfterHook, findHookDenial } from "./hooks.js";
import { prepareCall, toToolCall } from "./prepare.js";

/**
 * Limits of Claude Code (https://code.claude.com/docs/en/context-window, "What survives compaction"): five files, and
 * 5,000 tokens for a file or a skill. Larger files are not attached.
 */
const MAX_FILES = 5;
const MAX_TEXT_BYTES = 15_000;
/** Maximum skills that are attached, and maximum changed files that are tried. */
const MAX_SKILLS = 5;
const MAX_TRIED_FILES = 20;
/** Maximum bytes of instruction files, and the maximum share of all bytes that they and the skills may take. */
const MAX_INSTRUCTION_BYTES = 16_384;
const MAX_INSTRUCTION_SHARE = 1 / 3;
const MAX_SKILL_SHARE = 2 / 3;
/** Texts are not cut below this size. */
const MIN_TEXT_BYTES = 1_000;

/**
 * Reads what the session works with, as far as `view` does not show it: running background commands, the instruction
 * files and skills that the model received, and the files that it changed last. The texts have at most `maxBytes`
 * bytes. Skips what cannot be read. Rejects with the signal's reason.
 */
export async function readSessionWork(
  run: RunContext,
  view: readonly ModelMessage[],
  maxBytes: number,
): Promise<SessionWork> {
  const [commands, instructions] = await Promise.all([
    listRunningCommands(run),
    readInstructions(run, view, Math.min(MAX_INSTRUCTION_BYTES, Math.floor(maxBytes * MAX_INSTRUCTION_SHARE))),
  ]);
  const texts = [...instructions.texts];
  const countRemaining = (limitBytes: number) => limitBytes - Buffer.byteLength(texts.join("\n\n"));
  for (const name of listByTime(run.session.state, SKILL_KEY_PREFIX).reverse().slice(0, MAX_SKILLS)) {
    const skillBytes = Math.min(MAX_TEXT_BYTES, countRemaining(Math.floor(maxBytes * MAX_SKILL_SHARE)));
    if (skillBytes < MIN_TEXT_BYTES || isShown(view, ["skill"], name)) continue;
    const text = await callReadingTool(run, "skill", { name });
    if (text !== undefined) texts.push(formatText("read-skill", name, cutMiddle(text, skillBytes)));
  }
  let fileCount = 0;
  for (const path of listChangedFiles(run.session.state).reverse().slice(0, MAX_TRIED_FILES)) {
    if (fileCount === MAX_FILES || countRemaining(maxBytes) < MIN_TEXT_BYTES) break;
    if (isShown(view, ["read", "write"], path)) continue;
    const content = await callReadingTool(run, "read", { path });
    const text = formatText("changed-file", path, content ?? "");
    const maxTextBytes = Math.min(MAX_TEXT_BYTES, countRemaining(maxBytes));
    if (content === undefined || Buffer.byteLength(text) > maxTextBytes) continue;
    texts.push(text);
    fileCount += 1;
  }
  return { commands, texts, instructionVersions: instructions.versions };
}

async function listRunningCommands({ info, tools }: RunContext): Promise<SessionWork["commands"]> {
  const works = [...new Set(tools.list.flatMap(({ background }) => background ?? []))];
  const lists = await Promise.all(works.map((work) => work.list(info.sessionId)));
  return lists.flat().filter(({ state }) => state === "running");
}

/** Reads the instruction files below the project folder that tool results contained and the view does not. */
async function readInstructions(
  { agent, info, session }: RunContext,
  view: readonly ModelMessage[],
  maxBytes: number,
): Promise<{ texts: readonly string[]; versions: StateChanges }> {
  const paths = [...session.state.keys()]
    .filter((key) => key.startsWith(INSTRUCTION_PREFIX))
    .map((key) => key.slice(INSTRUCTION_PREFIX.length))
    .filter((path) => findInstructionVersion(view, path) === undefined);
  const foundFiles = await Promise.all(
    paths.map(async (path) => {
      const files = await agent.project.below(info.projectDir, dirname(resolve(info.projectDir, path)));
      return files.filter(({ from }) => from === path);
    }),
  );
  const files = foundFiles.flat();
  const shownFiles = limitInstructions(files, maxBytes - INSTRUCTIONS_HEADER.length);
  if (shownFiles.length === 0) return { texts: [], versions: {} };
  const shownPaths = new Set(shownFiles.map(({ from }) => from));
  return {
    texts: [INSTRUCTIONS_HEADER, ...shownFiles.map(formatInstruction)],
    versions: Object.fromEntries(
      files
        .filter(({ from }) => shownPaths.has(from))
        .map((file) => [INSTRUCTION_PREFIX + file.from, computeVersion(file)]),
    ),
  };
}

/** Formats the current text of a skill or a file in a tag that the text cannot close. */
function formatText(tag: "read-skill" | "changed-file", name: string, text: string): string {
  const escapedText = text.replace(/<(?=[\s/]*(?:read-skill|changed-file)\b)/gi, "&lt;");
  return `<${tag} name=${JSON.stringify(escapeInvisible(name))}>\n${escapedText}\n</${tag}>`;
}

/** Whether the messages show the result of a call of one of the tools with the argument. */
function isShown(messages: readonly ModelMessage[], toolNames: readonly string[], argument: string): boolean {
  const shownCallIds = new Set(
    messages
      .filter((message) => message.role === "tool" && !message.failed && textOf(message) !== CLEARED_NOTE)
      .map(({ toolCallId }) => toolCallId),
  );
  return messages
    .flatMap(toolCalls)
    .some(
      (call) =>
        shownCallIds.has(call.id) && toolNames.includes(call.name) && call.arguments.includes(JSON.stringify(argument)),
    );
}

/**
 * Calls a reading tool of the run as the model could: with its permission checks and hooks, but without asking a user.
 * Undefined if the call is not allowed, fails, or returns more than text. Rejects with the signal's reason.
 */
async function callReadingTool(run: RunContext, name: string, args: object): Promise<string | undefined> {
  const { info, signal, tools, channels } = run;
  const call = { type: "tool_call", id: `compaction-${newId()}`, name, arguments: JSON.stringify(args) } as const;
  const preparedCall = prepareCall(call, tools.list, info.projectDir, channels.logger);
  const { tool } = preparedCall;
  if (tool?.kind !== "read" || preparedCall.refusal !== undefined) return undefined;
  const toolCall = toToolCall(preparedCall, tool, info);
  const hookScope = { hooks: tools.hooks, signal, logger: channels.logger };
  const isAllowed =
    (await evaluate(toolCall, preparedCall.args, run)) === "allow" &&
    (await findHookDenial(toolCall, hookScope)) === undefined;
  if (!isAllowed) return undefined;
  const context: ToolContext = {
    runId: info.id,
    sessionId: info.sessionId,
    callId: call.id,
    projectDir: info.projectDir,
    folders: info.folders,
    signal,
    ask: () => Promise.resolve("reject"),
    askUser: () => Promise.resolve(undefined),
    progress: () => undefined,
    spawn: () => Promise.reject(new RunCancelledError()),
    // A copy, because the call has no stored result that could contain its changes.
    state: new Map(run.session.state),
    skills: tools.skills,
  };
  try {
    const output = await applyAfterHook(toolCall, await tool.run(preparedCall.args, context), hookScope);
    return output.failed === true || output.parts?.length ? undefined : output.text;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
