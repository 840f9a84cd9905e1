import { connect } from "node:net";
import { after, describe, it } from "node:test";
import { ProviderError } from "gantry";
import type { Model, ModelChunk, ModelRequest } from "gantry/plugin";
import { callTools, finish, modelProviderChecks, ScriptedProvider, type Check } from "gantry/testing";
import { assertCaught } from "../../helpers/caught.js";
import { ask, model, readTool } from "../../helpers/model-requests.js";

type Made = new () => ScriptedProvider;
const text = (piece: string): ModelChunk => ({ type: "text", block: "0", text: piece });
const TITLED = model({ id: "scripted-1" });

function checksOf(Wrong: Made): Check[] {
  let provider: ScriptedProvider;
  const request = () => Promise.resolve(ask({ model: TITLED }));
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

const FINISH = "stream: text as it comes, in blocks, and exactly one finish, last";
const CALL =
  "tool call: complete, of an offered tool, with a unique id and JSON arguments; the finish reason is tool_calls";
const FAULT =
  "fault: rejects with a ProviderError that names the provider and the kind, in one line, never after a finish";

const WRONG: [what: string, Wrong: Made, check: string][] = [
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
    "has no idle time-out",
    class extends ScriptedProvider {
      constructor() {
        super([], { idleTimeoutMs: 0 });
      }
    },
    "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range",
  ],
  [
    "does not say how long it may ask to wait",
    class extends ScriptedProvider {
      constructor() {
        super();
        Reflect.deleteProperty(this, "maxWaitMs");
      }
    },
    "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range",
  ],
  [
    "goes to the network for what it knows",
    class extends ScriptedProvider {
      constructor() {
        super();
        Object.defineProperty(this, "configuredModels", {
          get: () => {
            connect(1, "127.0.0.1")
              .on("error", () => undefined)
              .destroy();
            return [TITLED];
          },
        });
      }
    },
    "configuredModels: models, read without network access",
  ],
  [
    "goes to the network when it is prepared",
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
  ["lists less than it knows", listing(() => []), "models: all available models once, including the configured ones"],
  [
    "lists although the signal has aborted",
    listing((configuredModels) => [...configuredModels]),
    "models: rejects with the reason of a signal that has aborted",
  ],
  [
    "says everything at once",
    mapped((chunk) => (chunk.type === "text" && chunk.text !== "One " ? [] : [chunk])),
    FINISH,
  ],
  ["finishes twice", mapped((chunk) => (chunk.type === "finish" ? [chunk, chunk] : [chunk])), FINISH],
  ["goes on after the finish", mapped((chunk) => (chunk.type === "finish" ? [chunk, text("!")] : [chunk])), FINISH],
  ["never finishes", mapped((chunk) => (chunk.type === "finish" ? [] : [chunk])), FINISH],
  [
    "has a reason of its own",
    mapped((chunk) => (chunk.type === "finish" ? [{ ...chunk, reason: "end_turn" as "stop" }] : [chunk])),
    FINISH,
  ],
  [
    "counts more cached tokens than were sent",
    mapped((chunk) => (chunk.type === "finish" ? [finish("stop", { cacheReadTokens: 11 })] : [chunk])),
    "finish: usage that adds up",
  ],
  [
    "tells no usage",
    mapped((chunk) => (chunk.type === "finish" ? [finish("stop", { inputTokens: NaN })] : [chunk])),
    "finish: usage that adds up",
  ],
  [
    "changes the request",
    answering((chunks, request) => {
      Object.assign(request, { system: "mine" });
      return chunks;
    }),
    "stream: leaves the request as it was",
  ],
  [
    "cuts a tool call into pieces",
    mapped((chunk) => (chunk.type === "tool_call" ? [{ ...chunk, arguments: chunk.arguments.slice(0, 5) }] : [chunk])),
    CALL,
  ],
  ["gives two calls one id", mapped((chunk) => (chunk.type === "tool_call" ? [{ ...chunk, id: "1" }] : [chunk])), CALL],
  ["says stop behind tool calls", mapped((chunk) => (chunk.type === "finish" ? [finish("stop")] : [chunk])), CALL],
  [
    "begins although the signal has aborted",
    answering(async function* () {
      yield text("One");
      yield finish("stop");
    }),
    "abort: with an aborted signal rejects with its reason, without any chunk",
  ],
  [
    "ends an aborted answer as if it were whole",
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
    "rejects an abort with an error of its own",
    failing(() => new Error("aborted")),
    "abort: in mid-answer rejects with the signal's reason, without a finish",
  ],
  [
    "does not hear an abort while the model is silent",
    class extends ScriptedProvider {
      override stream(request: ModelRequest): AsyncIterable<ModelChunk> {
        return super.stream(request, new AbortController().signal);
      }
    },
    "abort: while the model is silent, rejects promptly with the signal's reason",
  ],
  [
    "holds a reader that leaves",
    answering(async function* (chunks) {
      try {
        yield* chunks;
      } finally {
        await new Promise(() => undefined);
      }
    }),
    "a reader that stops in mid-answer ends the call",
  ],
  ["fails with any error", failing((error) => new Error(error.message)), FAULT],
  ["names another provider", failing(() => new ProviderError("other", "server", "oops")), FAULT],
  ["fails in several lines", failing(() => new ProviderError("scripted", "server", "a\nb")), FAULT],
  ["fails behind a finish", failing((error) => error, [finish("stop")]), FAULT],
  [
    "is of no use after a fault",
    class extends ScriptedProvider {
      #broken = false;
      override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk> {
        if (this.#broken) throw new ProviderError("scripted", "server", "broken");
        this.#broken = true;
        yield* super.stream(request, signal);
      }
    },
    "fault: the next question is answered",
  ],
  [
    "cannot be closed twice",
    class extends ScriptedProvider {
      override async close(): Promise<void> {
        if (this.closed) throw new Error("closed already");
        await super.close();
      }
    },
    "close: safe to call twice, also without any request",
  ],
  [
    "leaves a timer behind",
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

describe("the provider kit catches a provider that", () => {
  for (const [what, Wrong, check] of WRONG) it(what, () => assertCaught(checksOf(Wrong), check));
});
