import { connect } from "node:net";
import { after, describe, it } from "node:test";
import { ProviderError } from "gantry";
import type { Model, ModelChunk, ModelRequest } from "gantry/plugin";
import { callTools, finish, modelProviderChecks, ScriptedProvider, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/assert-rejected.js";
import { ask, model, readTool } from "../../helpers/model-requests.js";

type Made = new () => ScriptedProvider;
const text = (piece: string): ModelChunk => ({ type: "text", block: "0", text: piece });
const MODEL = model({ id: "scripted-1" });

function checksOf(Wrong: Made): Check[] {
  let provider: ScriptedProvider;
  const request = () => Promise.resolve(ask({ model: MODEL }));
  return modelProviderChecks({
    create: () => Promise.resolve((provider = new Wrong())),
    text: () => (provider.push(["One ", "two ", "three."].map(text)), request()),
    toolCall: async () => {
      provider.push(callTools(["read", { path: "a" }], ["read", { path: "b" }]));
      return { ...(await request()), tools: [readTool] };
    },
    stall: () => (provider.push({ chunks: [text("One ")], hang: true }), request()),
    fault: () => (provider.push(new ProviderError("scripted", "server", "oops")), request()),
    clean: () => Promise.resolve(),
    timeoutMs: 300,
  });
}

/** A provider whose answers are modified. */
function answering(
  change: (chunks: AsyncIterable<ModelChunk>, request: ModelRequest, signal: AbortSignal) => AsyncIterable<ModelChunk>,
): Made {
  return class extends ScriptedProvider {
    override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
      yield* change(super.stream(request, signal), request, signal);
    }
  };
}

const mapped = (map: (chunk: ModelChunk) => readonly ModelChunk[]): Made =>
  answering(async function* (chunks) {
    for await (const chunk of chunks) yield* map(chunk);
  });

const failing = (wrap: (error: Error) => unknown, before: readonly ModelChunk[] = []): Made =>
  answering(async function* (chunks) {
    try {
      yield* chunks;
    } catch (error) {
      yield* before;
      throw wrap(error as Error);
    }
  });

const listing = (models: (configuredModels: readonly Model[]) => Model[]): Made =>
  class extends ScriptedProvider {
    override models(): Promise<Model[]> {
      return Promise.resolve(models(this.configuredModels));
    }
  };

const FINISH = "stream: yields text in at least three chunks, and exactly one finish, at the end";
const CALL =
  "tool call: complete, of an offered tool, with a unique id and JSON arguments; the finish reason is tool_calls";
const FAULT =
  "fault: rejects with a ProviderError that names the provider and the kind, in one line, never after a finish";

const WRONG: [fault: string, Wrong: Made, check: string][] = [
  [
    "has a slash in its name",
    class extends ScriptedProvider {
      constructor() {
        super([], { name: "a/b" });
      }
    },
    "name: not empty, no `/` and no white space",
  ],
  [
    "has an idle timeout of 0",
    class extends ScriptedProvider {
      constructor() {
        super([], { idleTimeoutMs: 0 });
      }
    },
    "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range",
  ],
  [
    "has no maxWaitMs",
    class extends ScriptedProvider {
      constructor() {
        super();
        Reflect.deleteProperty(this, "maxWaitMs");
      }
    },
    "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range",
  ],
  [
    "opens a connection to read configuredModels",
    class extends ScriptedProvider {
      constructor() {
        super();
        Object.defineProperty(this, "configuredModels", {
          get: () => {
            connect(1, "127.0.0.1")
              .on("error", () => undefined)
              .destroy();
            return [MODEL];
          },
        });
      }
    },
    "configuredModels: models, read without network access",
  ],
  [
    "opens a connection in prepare",
    class extends ScriptedProvider {
      prepare(): Promise<void> {
        connect(1, "127.0.0.1")
          .on("error", () => undefined)
          .destroy();
        return Promise.resolve();
      }
    },
    "prepare: if present, resolves without network access",
  ],
  [
    "lists a model twice",
    listing((configuredModels) => [...configuredModels, ...configuredModels]),
    "models: all available models once, including the configured ones",
  ],
  [
    "omits the configured models from its list",
    listing(() => []),
    "models: all available models once, including the configured ones",
  ],
  [
    "lists models although the signal has aborted",
    listing((configuredModels) => [...configuredModels]),
    "models: rejects with the reason of a signal that has aborted",
  ],
  [
    "yields one chunk of text instead of three",
    mapped((chunk) => (chunk.type === "text" && chunk.text !== "One " ? [] : [chunk])),
    FINISH,
  ],
  ["yields two finish chunks", mapped((chunk) => (chunk.type === "finish" ? [chunk, chunk] : [chunk])), FINISH],
  ["yields text after the finish", mapped((chunk) => (chunk.type === "finish" ? [chunk, text("!")] : [chunk])), FINISH],
  ["yields no finish", mapped((chunk) => (chunk.type === "finish" ? [] : [chunk])), FINISH],
  [
    "returns an unknown finish reason",
    mapped((chunk) => (chunk.type === "finish" ? [{ ...chunk, reason: "end_turn" as "stop" }] : [chunk])),
    FINISH,
  ],
  [
    "reports more cached tokens than input tokens",
    mapped((chunk) => (chunk.type === "finish" ? [finish("stop", { cacheReadTokens: 11 })] : [chunk])),
    "finish: usage has valid and consistent token counts",
  ],
  [
    "reports NaN input tokens",
    mapped((chunk) => (chunk.type === "finish" ? [finish("stop", { inputTokens: NaN })] : [chunk])),
    "finish: usage has valid and consistent token counts",
  ],
  [
    "modifies the request",
    answering((chunks, request) => {
      Object.assign(request, { system: "mine" });
      return chunks;
    }),
    "stream: does not modify the request",
  ],
  [
    "truncates the arguments of a tool call",
    mapped((chunk) => (chunk.type === "tool_call" ? [{ ...chunk, arguments: chunk.arguments.slice(0, 5) }] : [chunk])),
    CALL,
  ],
  [
    "uses one id for two tool calls",
    mapped((chunk) => (chunk.type === "tool_call" ? [{ ...chunk, id: "1" }] : [chunk])),
    CALL,
  ],
  [
    "returns the finish reason stop after tool calls",
    mapped((chunk) => (chunk.type === "finish" ? [finish("stop")] : [chunk])),
    CALL,
  ],
  [
    "starts an answer although the signal has aborted",
    answering(async function* () {
      yield text("One");
      yield finish("stop");
    }),
    "abort: with an aborted signal rejects with its reason, without any chunk",
  ],
  [
    "finishes an aborted answer with stop",
    answering(async function* (chunks) {
      try {
        yield* chunks;
      } catch {
        yield finish("stop");
      }
    }),
    "abort: in mid-answer rejects with the signal's reason, without a finish",
  ],
  [
    "rejects with its own error after an abort",
    failing(() => new Error("aborted")),
    "abort: in mid-answer rejects with the signal's reason, without a finish",
  ],
  [
    "ignores an abort while the model is silent",
    class extends ScriptedProvider {
      override stream(request: ModelRequest): AsyncIterable<ModelChunk> {
        return super.stream(request, new AbortController().signal);
      }
    },
    "abort: while the model is silent, rejects promptly with the signal's reason",
  ],
  [
    "blocks a reader that stops early",
    answering(async function* (chunks) {
      try {
        yield* chunks;
      } finally {
        await new Promise(() => undefined);
      }
    }),
    "a reader that stops in mid-answer ends the call",
  ],
  ["fails with a plain Error", failing((error) => new Error(error.message)), FAULT],
  ["names another provider in its error", failing(() => new ProviderError("other", "server", "oops")), FAULT],
  ["fails with a message of two lines", failing(() => new ProviderError("scripted", "server", "a\nb")), FAULT],
  ["fails after a finish", failing((error) => error, [finish("stop")]), FAULT],
  [
    "fails every request after a fault",
    class extends ScriptedProvider {
      #broken = false;
      override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
        if (this.#broken) throw new ProviderError("scripted", "server", "broken");
        this.#broken = true;
        yield* super.stream(request, signal);
      }
    },
    "fault: the next request is answered",
  ],
  [
    "rejects a second close",
    class extends ScriptedProvider {
      override async close(): Promise<void> {
        if (this.closed) throw new Error("closed already");
        await super.close();
      }
    },
    "close: safe to call twice, also without any request",
  ],
  [
    "leaks a timer on close",
    class extends ScriptedProvider {
      override async close(): Promise<void> {
        // Time: the leaked timer never fires.
        timers.push(setTimeout(() => undefined, 1_000_000));
        await super.close();
      }
    },
    "close: nothing is open afterwards",
  ],
];

const timers: NodeJS.Timeout[] = [];
after(() => timers.forEach(clearTimeout));

describe("the model provider kit", () => {
  for (const [fault, Wrong, check] of WRONG)
    it(`catches a provider that ${fault}`, () => assertCaught(checksOf(Wrong), check));
});
