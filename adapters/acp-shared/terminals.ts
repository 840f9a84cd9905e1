import { isRecord } from "gantry/plugin";
import type { SessionUpdate, TerminalMeta, ToolCallFields } from "./wire.js";

/** Maximum characters of reported output that are compared with the result. */
const MAX_COMPARED_CHARACTERS = 256 * 1024;

/** The notes that the tool `bash` appends to the output of an ended command. */
const EXIT_CODE_NOTE = /^\[exit code (\d+)\]$/gm;
const SIGNAL_NOTE = /^\[ended by (SIG[A-Z0-9]+)\]$/gm;

/**
 * Shows the output of commands as terminals, for a client with `_meta.terminal_output`. Zed, codex-acp 2.6 and
 * claude-agent-acp 0.101 use this extension: the client creates a terminal for `terminal_info`, appends the text of
 * `terminal_output`, and marks the terminal as ended at `terminal_exit`. One instance for the sessions of a client.
 */
export class Terminals {
  /** Reported output by session id and call id; undefined if the output is too long to compare. */
  readonly #outputByCallKey = new Map<string, string | undefined>();

  /** Returns the update as a client with terminals receives it. Updates of other calls stay unchanged. */
  convert(sessionId: string, update: SessionUpdate): SessionUpdate {
    if (update.sessionUpdate !== "tool_call" && update.sessionUpdate !== "tool_call_update") return update;
    const { toolCallId } = update;
    const callKey = `${sessionId} ${toolCallId}`;
    const terminal = [{ type: "terminal" as const, terminalId: toolCallId }];
    if (update.sessionUpdate === "tool_call") {
      if (!isCommand(update)) return update;
      this.#outputByCallKey.set(callKey, "");
      return { ...update, content: terminal, _meta: { terminal_info: { terminal_id: toolCallId } } };
    }
    if (!this.#outputByCallKey.has(callKey)) return withoutTerminal(update);
    const meta = update._meta?.terminal_output;
    if (update.status === "in_progress") {
      if (meta) this.#addOutput(callKey, meta.data);
      const { content: _content, ...fields } = update;
      return fields;
    }
    const reportedOutput = this.#outputByCallKey.get(callKey);
    this.#outputByCallKey.delete(callKey);
    const result = typeof update.rawOutput === "string" ? update.rawOutput : "";
    return {
      ...update,
      content: [...terminal, ...(update.content ?? []).filter((content) => !isText(content))],
      _meta: createEndMeta(toolCallId, result, reportedOutput),
    };
  }

  #addOutput(callKey: string, text: string): void {
    const output = this.#outputByCallKey.get(callKey);
    const isShort = output !== undefined && output.length + text.length <= MAX_COMPARED_CHARACTERS;
    this.#outputByCallKey.set(callKey, isShort ? output + text : undefined);
  }
}

/** Whether the call runs a command, and its output therefore suits a terminal. */
function isCommand({ kind, rawInput }: ToolCallFields): boolean {
  return kind === "execute" && isRecord(rawInput) && typeof rawInput.command === "string";
}

function isText(content: NonNullable<ToolCallFields["content"]>[number]): boolean {
  return content.type === "content" && content.content.type === "text";
}

function withoutTerminal(update: Extract<SessionUpdate, { sessionUpdate: "tool_call_update" }>): SessionUpdate {
  if (!update._meta?.terminal_output) return update;
  const { _meta, ...fields } = update;
  return fields;
}

/** The rest of the output and the exit status. */
function createEndMeta(toolCallId: string, result: string, reportedOutput: string | undefined): TerminalMeta {
  const data = findMissingOutput(result, reportedOutput);
  const exitCode = [...result.matchAll(EXIT_CODE_NOTE)].at(-1)?.[1];
  const signal = [...result.matchAll(SIGNAL_NOTE)].at(-1)?.[1];
  return {
    ...(data !== "" && { terminal_output: { terminal_id: toolCallId, data } }),
    terminal_exit: {
      terminal_id: toolCallId,
      exit_code: exitCode === undefined ? null : Number(exitCode),
      signal: exitCode === undefined ? (signal ?? null) : null,
    },
  };
}

/** The part of the result that the terminal lacks. Fast output is reported in part; the complete result then follows. */
function findMissingOutput(result: string, reportedOutput: string | undefined): string {
  if (reportedOutput === "") return result;
  // The result has no line feeds at the end of the output.
  const output = reportedOutput?.replace(/\n+$/, "");
  if (output === undefined || !result.startsWith(output)) return `\n[complete result]\n${result}`;
  const missingOutput = result.slice(output.length);
  return output === reportedOutput ? missingOutput : missingOutput.replace(/^\n/, "");
}
