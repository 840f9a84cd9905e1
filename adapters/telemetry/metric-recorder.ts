import { hasCode, type BusEvents } from "gantry";
import type { HookSet, ModelCallNames, ToolCallNames } from "gantry/plugin";
import { BoundedNames, OTHER } from "./bounded-names.js";
import { toErrorType } from "./error-type.js";
import type { Instruments, SeriesRecorder } from "./instruments.js";

type Listeners = NonNullable<HookSet["listeners"]>;

/** Maximum values of the labels for models and tools. Further ones become `other`. */
const MAX_MODELS = 100;
const MAX_TOOLS = 100;

interface ModelRecorders {
  readonly model: Readonly<Record<string, string>>;
  readonly duration: SeriesRecorder;
  readonly timeToFirstToken: SeriesRecorder;
  readonly inputTokens: SeriesRecorder;
  readonly outputTokens: SeriesRecorder;
}

/** Records the events of an agent in the instruments. */
export class MetricRecorder {
  readonly #instruments: Instruments;
  readonly #models = new BoundedNames(MAX_MODELS);
  readonly #tools = new BoundedNames(MAX_TOOLS);
  /** By bounded labels, so that the map is bounded too. */
  readonly #modelRecorders = new Map<string, ModelRecorders>();
  readonly #runs = new Map<string, { startedAtMs: number; kind: string }>();
  /** Start times of the active tool calls, by run id and call id. */
  readonly #toolStartsMs = new Map<string, number>();
  /** Number of open questions. */
  openAsks = 0;

  readonly listeners: Listeners = {
    "run.started": ({ runId, parent }) =>
      void this.#runs.set(runId, { startedAtMs: performance.now(), kind: parent ? "subagent" : "main" }),
    "run.finished": ({ runId, result }) => this.#endRun(runId, "finished", result.endedBy),
    "run.failed": ({ runId, error }) => {
      const reason = toErrorType(error);
      this.#endRun(runId, isCancellation(error) ? "cancelled" : "failed", reason);
    },
    "model.called": (event) => this.#recordModelCall(event),
    "model.failed": ({ error, durationMs, ...names }) =>
      this.#instruments.modelDuration.record(durationMs / 1_000, {
        ...this.#toModelLabels(names),
        purpose: names.purpose,
        "error.type": toErrorType(error),
      }),
    "model.retried": (names) => {
      const { "gen_ai.operation.name": _operation, ...labels } = this.#toModelLabels(names);
      this.#instruments.modelRetries.add(1, labels);
    },
    "tool.started": (call) => void this.#toolStartsMs.set(toCallKey(call), performance.now()),
    "tool.finished": (call) => this.#endToolCall(call),
    "tools.failed": () => this.#instruments.toolSourceFailures.add(1),
    "ask.opened": () => void (this.openAsks += 1),
    "ask.closed": () => void (this.openAsks -= 1),
    "session.created": () => this.#instruments.sessions.add(1, { change: "created" }),
    "session.forked": () => this.#instruments.sessions.add(1, { change: "forked" }),
    "session.compacted": () => this.#instruments.sessions.add(1, { change: "compacted" }),
    "session.deleted": ({ ids }) => this.#instruments.sessions.add(ids.length, { change: "deleted" }),
  };

  constructor(instruments: Instruments) {
    this.#instruments = instruments;
  }

  #endRun(runId: string, state: string, reason: string): void {
    const run = this.#runs.get(runId);
    this.#runs.delete(runId);
    const kind = run?.kind ?? "main";
    this.#instruments.runs.add(1, { state, reason, kind });
    if (run) this.#instruments.runDuration.record((performance.now() - run.startedAtMs) / 1_000, { state, kind });
  }

  #recordModelCall(event: BusEvents["model.called"]): void {
    const { usage, durationMs, firstTokenMs } = event;
    const recorders = this.#findModelRecorders(event);
    recorders.duration.record(durationMs / 1_000);
    if (firstTokenMs !== undefined) recorders.timeToFirstToken.record(firstTokenMs / 1_000);
    recorders.inputTokens.record(usage.promptTokens);
    recorders.outputTokens.record(usage.completionTokens);
    this.#instruments.cost.add(usage.cost, recorders.model);
  }

  #findModelRecorders(names: ModelCallNames): ModelRecorders {
    const { purpose } = names;
    const labels = this.#toModelLabels(names);
    const key = `${labels["gen_ai.provider.name"]}/${labels["gen_ai.request.model"]} ${purpose}`;
    let recorders = this.#modelRecorders.get(key);
    if (!recorders) {
      const { modelDuration, timeToFirstToken, tokens } = this.#instruments;
      const { "gen_ai.operation.name": _operation, ...model } = labels;
      recorders = {
        model,
        duration: modelDuration.bind({ ...labels, purpose }),
        timeToFirstToken: timeToFirstToken.bind({ ...labels, purpose }),
        inputTokens: tokens.bind({ ...labels, "gen_ai.token.type": "input" }),
        outputTokens: tokens.bind({ ...labels, "gen_ai.token.type": "output" }),
      };
      this.#modelRecorders.set(key, recorders);
    }
    return recorders;
  }

  #endToolCall(call: BusEvents["tool.finished"]): void {
    const { isOffered, name, origin, refused, failed } = call;
    // A model can invent names without limit.
    const tool = isOffered ? this.#tools.get(name) : OTHER;
    const outcome = refused ? "refused" : failed ? "failed" : "ok";
    this.#instruments.toolCalls.add(1, { tool, outcome, source: toSource(origin) });
    const key = toCallKey(call);
    const startedAtMs = this.#toolStartsMs.get(key);
    this.#toolStartsMs.delete(key);
    if (startedAtMs !== undefined)
      this.#instruments.toolDuration.record((performance.now() - startedAtMs) / 1_000, { tool });
  }

  #toModelLabels({ provider, model }: Pick<ModelCallNames, "provider" | "model">) {
    const isKnown = this.#models.get(`${provider}/${model}`) !== OTHER;
    return {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": isKnown ? provider : OTHER,
      "gen_ai.request.model": isKnown ? model : OTHER,
    };
  }
}

function toSource(origin: string | undefined): string {
  return origin === undefined ? "agent" : origin.startsWith("mcp:") ? "mcp" : "plugin";
}

/** Whether a run was cancelled, by its caller or by the end of the server. */
function isCancellation(error: Error): boolean {
  return hasCode(error, "run_cancelled") || hasCode(error, "shutting_down");
}

/** The ids of models are unique only within a run. */
export function toCallKey({ runId, callId }: Pick<ToolCallNames, "runId" | "callId">): string {
  return `${runId} ${callId}`;
}
