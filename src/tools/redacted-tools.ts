import { ToolError } from "../ports/errors.js";
import type { Tool, ToolOutput } from "../ports/tool.js";
import type { ToolSource } from "../ports/tool-source.js";
import { RedactedStream } from "../base/redacted-stream.js";
import { ThrottledOutput } from "../base/throttled-output.js";
import type { Redactor } from "../base/redact.js";

/**
 * Wraps a tool so that its results, progress and errors contain no known secret. Results go to the model and to the
 * session store.
 */
export function redactTools(tool: Tool, redactor: Redactor): Tool {
  return {
    ...tool,
    // Listed one by one, because a spread does not copy members that a class defines.
    name: tool.name,
    description: tool.description,
    inputSchema: tool.inputSchema,
    kind: tool.kind,
    parallel: tool.parallel,
    needsPermission: tool.needsPermission,
    ...(tool.origin === undefined ? {} : { origin: tool.origin }),
    ...(tool.needsUser === undefined ? {} : { needsUser: tool.needsUser }),
    ...(tool.needsSkills === undefined ? {} : { needsSkills: tool.needsSkills }),
    ...(tool.models && { models: (model) => tool.models!(model) }),
    ...(tool.replaces && { replaces: tool.replaces }),
    parse: (input): unknown => tool.parse(input),
    describe: (args, projectDir) => tool.describe(args, projectDir),
    run: async (args: unknown, context) => {
      const stream = new RedactedStream(redactor, (text) => context.progress(text));
      const throttledOutput = new ThrottledOutput((text, isCut) => stream.push(text, isCut));
      try {
        return redactOutput(
          await tool.run(args, { ...context, progress: (text) => throttledOutput.push(text) }),
          redactor,
        );
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        const message = redactor.hide(error.message);
        throw message === error.message ? error : new ToolError(message);
      } finally {
        throttledOutput.end();
      }
    },
    close: async () => tool.close?.(),
  };
}

/** Wraps a source so that its tools and prompts return no known secret. */
export function redactToolSource(source: ToolSource, redactor: Redactor): ToolSource {
  return {
    name: source.name,
    open: async (session, signal) => {
      const openTools = await source.open(session, signal);
      return {
        get tools() {
          return openTools.tools.map((tool) => redactTools(tool, redactor));
        },
        get instructions() {
          return openTools.instructions === undefined ? undefined : redactor.hide(openTools.instructions);
        },
        get prompts() {
          return (openTools.prompts ?? []).map((command) => ({
            ...command,
            prompt: async (argumentsText: string, signal: AbortSignal) => {
              const promptResult = await command.prompt(argumentsText, signal);
              return { ...promptResult, text: redactor.hide(promptResult.text) };
            },
          }));
        },
        close: () => openTools.close(),
      };
    },
  };
}

function redactOutput(output: ToolOutput, redactor: Redactor): ToolOutput {
  const { text, diff, commandEnd } = output;
  return {
    ...output,
    text: redactor.hide(String(text)),
    ...(commandEnd && { commandEnd: { ...commandEnd, output: redactor.hide(commandEnd.output) } }),
    ...(diff && {
      diff: diff.map(({ path, oldText, newText }) => ({
        path,
        oldText: oldText === null ? null : redactor.hide(oldText),
        newText: redactor.hide(newText),
      })),
    }),
  };
}
