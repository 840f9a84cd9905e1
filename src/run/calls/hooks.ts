import { abortable } from "../../base/abort.js";
import { INTERRUPTED_CALL_RESULT } from "../../conversation/messages.js";
import type { Hooks } from "../../ports/hooks.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCall, ToolOutput } from "../../ports/tool.js";
import { CANCELLED_TEXT } from "../permissions/evaluate.js";
import { formatError } from "./prepare.js";

interface HookScope {
  readonly hooks: Hooks;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/** Returns why the `beforeToolCall` hook denies a call, for the model; undefined if the call may run. Never rejects. */
export async function findHookDenial(
  call: ToolCall,
  { hooks, signal, logger }: HookScope,
): Promise<string | undefined> {
  if (!hooks.beforeToolCall) return undefined;
  try {
    await abortable((async () => hooks.beforeToolCall?.(call, signal))(), signal);
    return undefined;
  } catch (error) {
    if (signal.aborted) return CANCELLED_TEXT;
    logger.info("beforeToolCall hook denied a tool call", { tool: call.tool.name, error });
    return `This call was refused: ${formatError(error)}`;
  }
}

export async function applyAfterHook(
  call: ToolCall,
  output: ToolOutput,
  { hooks, signal, logger }: HookScope,
): Promise<ToolOutput> {
  if (!hooks.afterToolCall) return output;
  try {
    const replacement: ToolOutput | undefined | void = await abortable(
      (async () => hooks.afterToolCall?.(call, output, signal))(),
      signal,
    );
    if (replacement !== undefined && typeof replacement?.text !== "string")
      throw new Error("afterToolCall returned no { text }");
    return replacement ?? output;
  } catch (error) {
    // Output must not be shown before the `afterToolCall` hook has seen it.
    if (signal.aborted) return { text: INTERRUPTED_CALL_RESULT, failed: true };
    logger.error("afterToolCall hook failed; withholding the tool output", { tool: call.tool.name, error });
    return { text: `${call.tool.name} ran, but its output is withheld. Continue without it.`, failed: true };
  }
}
