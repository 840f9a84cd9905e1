import { connect } from "node:net";
import { after, describe, it } from "node:test";
import { ProviderError } from "gantry";
import type { Model, ModelChunk, ModelRequest } from "gantry/plugin";
import { callTools, finish, modelProviderChecks, ScriptedProvider, type Check } from "gantry/testing";
import { assertCheckRejects } from "../../helpers/assert-check-rejects.js";
import { createRequest, createModel, readTool } from "../../helpers/model-requests.js";

type ProviderClass = new () => ScriptedProvider;
const toTextChunk = (piece: string): ModelChunk => ({ type: "text", block: "0", text: piece });
const MODEL = createModel({ id: "scripted-1" });

function createChecks(WrongProvider: ProviderClass): Check[] {
  let provider: ScriptedProvider;
  const createTextRequest = () => Promise.resolve(createRequest({ model: MODEL }));
  return modelProviderChecks({
    create: () => Promise.resolve((provider = new WrongProvider())),
    text: () => (provider.push(["One ", "two ", "three."].map(toTextChunk)), createTextRequest()),
    toolCall: async () => {
      provider.push(callTools(["read", { path: "a" }], ["read", { path: "b" }]));
      return { ...(await createTextRequest()), tools: [readTool] };
    },
    stall: () => (provider.push({ chunks: [toTextChunk("One ")], hang: true }), createTextRequest()),
    fault: () => (provider.push(new ProviderError("scripted", "server", "oops")), createTextRequest()),
    clean: () => Promise.resolve(),
    timeoutMs: 300,
  });
}

/** Returns a class of providers whose answers are modified by `change`. */
function changeAnswers(
  change: (chunks: AsyncIterable<ModelChunk>, request: ModelRequest, signal: AbortSignal) => AsyncIterable<ModelChunk>,
): ProviderClass {
  return class extends ScriptedProvider {
    override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
      yield* change(super.stream(request, signal), request, signal);
    }
  };
}

const mapChunks = (map: (chunk: ModelChunk) => readonly ModelChunk[]): ProviderClass =>
  changeAnswers(async function* (chunks) {
    for await (const chunk of chunks) yield* map(chunk);
  });

const changeErrors = (wrap: (error: Error) => unknown, leadingChunks: readonly ModelChunk[] = []): ProviderClass =>
  changeAnswers(async function* (chunks) {
    try {
      yield* chunks;
    } catch (error) {
      yield* leadingChunks;
      throw wrap(error as Error);
    }
  });

const changeModels = (listModels: (configuredModels: readonly Model[]) => Model[]): ProviderClass =>
  class extends ScriptedProvider {
    override models(): Promise<Model[]> {
      return Promise.resolve(listModels(this.configuredModels));
    }
  };

const FINISH_CHECK = "stream: yields text in at least three chunks, and exactly one finish, at the end";
const CALL_CHECK =
  "tool call: complete, of an offered tool, with a unique id and JSON arguments; the finish reason is tool_calls";
const FAULT_CHECK =
  "fault: rejects with a ProviderError that names the provider and the kind, in one line, never after a finish";

const FAULTY_PROVIDERS: [fault: string, WrongProvider: ProviderClass, checkName: string][] = [
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
    changeModels((configuredModels) => [...configuredModels, ...configuredModels]),
    "models: all available models once, including the configured ones",
  ],
  [
    "omits the configured models from its list",
    changeModels(() => []),
    "models: all available models once, including the configured ones",
  ],
  [
    "lists models although the signal has aborted",
    changeModels((configuredModels) => [...configuredModels]),
    "models: rejects with the reason of a signal that has aborted",
  ],
  [
    "yields one chunk of text instead of three",
    mapChunks((chunk) => (chunk.type === "text" && chunk.text !== "One " ? [] : [chunk])),
    FINISH_CHECK,
  ],
  [
    "yields two finish chunks",
    mapChunks((chunk) => (chunk.type === "finish" ? [chunk, chunk] : [chunk])),
    FINISH_CHECK,
  ],
  [
    "yields text after the finish",
    mapChunks((chunk) => (chunk.type === "finish" ? [chunk, toTextChunk("!")] : [chunk])),
    FINISH_CHECK,
  ],
  ["yields no finish", mapChunks((chunk) => (chunk.type === "finish" ? [] : [chunk])), FINISH_CHECK],
  [
    "returns an unknown finish reason",
    mapChunks((chunk) => (chunk.type === "finish" ? [{ ...chunk, reason: "end_turn" as "stop" }] : [chunk])),
    FINISH_CHECK,
  ],
  [
    "reports more cached tokens than input tokens",
    mapChunks((chunk) => (chunk.type === "finish" ? [finish("stop", { cacheReadTokens: 11 })] : [chunk])),
    "finish: usage has valid and consistent token counts",
  ],
  [
    "reports NaN input tokens",
    mapChunks((chunk) => (chunk.type === "finish" ? [finish("stop", { inputTokens: NaN })] : [chunk])),
    "finish: usage has valid and consistent token counts",
  ],
  [
    "modifies the request",
    changeAnswers((chunks, request) => {
      Object.assign(request, { system: "mine" });
      return chunks;
    }),
    "stream: does not modify the request",
  ],
  [
    "truncates the arguments of a tool call",
    mapChunks((chunk) =>
      chunk.type === "tool_call" ? [{ ...chunk, arguments: chunk.arguments.slice(0, 5) }] : [chunk],
    ),
    CALL_CHECK,
  ],
  [
    "uses one id for two tool calls",
    mapChunks((chunk) => (chunk.type === "tool_call" ? [{ ...chunk, id: "1" }] : [chunk])),
    CALL_CHECK,
  ],
  [
    "returns the finish reason stop after tool calls",
    mapChunks((chunk) => (chunk.type === "finish" ? [finish("stop")] : [chunk])),
    CALL_CHECK,
  ],
  [
    "starts an answer although the signal has aborted",
    changeAnswers(async function* () {
      yield toTextChunk("One");
      yield finish("stop");
    }),
    "abort: with an aborted signal, the stream rejects with the signal's reason and yields no chunk",
  ],
  [
    "finishes an aborted answer with stop",
    changeAnswers(async function* (chunks) {
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
    changeErrors(() => new Error("aborted")),
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
    changeAnswers(async function* (chunks) {
      try {
        yield* chunks;
      } finally {
        await new Promise(() => undefined);
      }
    }),
    "a reader that stops in mid-answer ends the call",
  ],
  ["fails with a plain Error", changeErrors((error) => new Error(error.message)), FAULT_CHECK],
  [
    "names another provider in its error",
    changeErrors(() => new ProviderError("other", "server", "oops")),
    FAULT_CHECK,
  ],
  [
    "fails with a message of two lines",
    changeErrors(() => new ProviderError("scripted", "server", "a\nb")),
    FAULT_CHECK,
  ],
  ["fails after a finish", changeErrors((error) => error, [finish("stop")]), FAULT_CHECK],
  [
    "fails every request after a fault",
    class extends ScriptedProvider {
      #hasFailed = false;
      override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
        if (this.#hasFailed) throw new ProviderError("scripted", "server", "broken");
        this.#hasFailed = true;
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
        leakedTimers.push(setTimeout(() => undefined, 1_000_000));
        await super.close();
      }
    },
    "close: nothing is open afterwards",
  ],
];

const leakedTimers: NodeJS.Timeout[] = [];
after(() => leakedTimers.forEach(clearTimeout));

describe("the model provider checks", () => {
  for (const [fault, WrongProvider, check] of FAULTY_PROVIDERS)
    it(`catches a provider that ${fault}`, () => assertCheckRejects(createChecks(WrongProvider), check));
});
