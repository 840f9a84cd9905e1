import type { AdmittedCall, Allowance, AnswerMeter } from "../../models/answer-meter.js";
import { bytesOfAll, BYTES_PER_TOKEN, bytesOfPrefix } from "../../models/estimate.js";
import { costOf, toUsage } from "../../models/usage.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { ModelPurpose } from "../../ports/bus-events.js";
import { abortable } from "../../base/abort.js";
import { BudgetExceededError, ModelSelectionError } from "../../ports/errors.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest, ModelUsage } from "../../ports/model-provider.js";
import { hasCostLimit, type RunLimits } from "./limits.js";

/** Minimum answer tokens of a call. Fewer are useless, and some providers reject such a low limit. */
const MIN_ANSWER_TOKENS = 16;
/**
 * Highest answer limit sent to a model whose maximum answer is unknown, in tokens. The provider may reject a higher
 * limit. Reasoning tokens count as answer tokens.
 */
const MAX_SENT_ANSWER_TOKENS = { plain: 4_096, reasoning: 32_000 };
/**
 * A reported prompt size is trusted if it has at least one token per this many bytes. Some servers omit cached tokens.
 */
const MAX_BYTES_PER_TOKEN = 8;

/** Allowance for what a provider's format adds to a message, such as the id of a call. A budget must never be exceeded. */
const MESSAGE_FORMAT_BYTES = 64;
/** Usable share of the remaining context window. The rest covers errors of the prompt's estimate. */
const USABLE_WINDOW_SHARE = 0.95;

/** The members of a run that its budget uses. */
export interface BudgetOwner {
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly recorder: Pick<Recorder, "run" | "sessionUsage" | "write">;
  /** The run's signal. Required with `parentBudget`. */
  readonly signal?: AbortSignal;
  /** Budget of the parent run, which a subagent shares. Set for subagent runs only. */
  readonly parentBudget?: RunBudget | undefined;
}

/** An amount of each resource that a budget counts. */
interface Amount {
  usd: number;
  tokens: number;
}

/**
 * Enforces the budget of one run's model calls. A call is admitted only if the budget covers the call in advance.
 * The prompt is estimated at full price, as if nothing were cached. The answer is limited to the remaining tokens.
 *
 * Calls of subagents reserve their maximum while they run. If too little remains for a full answer, the next call waits
 * for a reservation to end.
 */
export class RunBudget implements Allowance {
  readonly #limits: RunLimits;
  readonly #owner: BudgetOwner;
  /** Amounts used that the run's reported usage does not include. */
  readonly #unreportedUsage: Amount = { usd: 0, tokens: 0 };
  /** Reservations of active subagent calls, by run id. */
  readonly #reservations = new Map<string, Amount>();
  /** Callbacks of calls that wait for a reservation to end. */
  #releaseCallbacks: (() => void)[] = [];
  /**
   * Size of the newest conversation prompt in bytes, and its tokens as counted by the provider. Undefined: no count is
   * valid.
   */
  #countedPrompt: { bytes: number; tokens: number } | undefined;

  constructor(limits: RunLimits, owner: BudgetOwner) {
    this.#limits = limits;
    this.#owner = owner;
  }

  async admit(purpose: ModelPurpose, request: ModelRequest): Promise<AdmittedCall> {
    const promptTokens = this.#countPromptTokens(purpose, request);
    const { model, maxTokens = Infinity } = request;
    const { provider } = this.#owner;
    const prices = this.#hasCostLimit
      ? await requirePrices(provider, this.#owner.model, promptTokens, this.#limits.unknownPrice)
      : FREE_PRICES;
    const modelLimit = Math.min(maxTokens, model.maxOutput ?? Infinity);
    const sendableLimit =
      modelLimit < Infinity ? modelLimit : MAX_SENT_ANSWER_TOKENS[model.reasoning === true ? "reasoning" : "plain"];
    // Prompt and answer share the context window. Many providers reject an answer limit that exceeds the remaining
    // window.
    const windowTokens = Math.floor(((model.contextWindow ?? Infinity) - promptTokens) * USABLE_WINDOW_SHARE);
    const usableTokens = Math.min(modelLimit, windowTokens);
    const { parentBudget, signal, recorder } = this.#owner;
    const runId = recorder.run.id;
    let affordableTokens = this.#countAffordableTokens(promptTokens, prices);
    while (parentBudget && signal && affordableTokens < usableTokens && parentBudget.#hasOtherReservations(runId)) {
      await abortable(parentBudget.#waitForRelease(), signal);
      affordableTokens = this.#countAffordableTokens(promptTokens, prices);
    }
    if (affordableTokens < MIN_ANSWER_TOKENS) throw new BudgetExceededError();
    // No await since the check, so that no other call can reserve the same amount.
    if (parentBudget)
      parentBudget.#reserve(runId, computeMaxCost(promptTokens, Math.min(affordableTokens, usableTokens), prices));
    const isBudgetLower = affordableTokens < usableTokens;
    const isSendable = isBudgetLower && affordableTokens <= sendableLimit;
    return {
      request: isSendable ? { ...request, maxTokens: affordableTokens } : request,
      promptTokens,
      maxAnswerTokens: affordableTokens,
      hasAnswerLimit: isSendable,
      isLimitedByBudgetOnly: isBudgetLower && !isSendable,
    };
  }

  recordAnswer(purpose: ModelPurpose, { request }: AdmittedCall, meter: AnswerMeter, usage: ModelUsage): void {
    const { model } = this.#owner;
    const bytes = countRequestBytes(request);
    if (purpose === "answer")
      this.#countedPrompt =
        !usage.estimated && usage.inputTokens * MAX_BYTES_PER_TOKEN >= bytes
          ? { bytes, tokens: usage.inputTokens }
          : undefined;
    // Titles do not count against the budget.
    if (purpose === "title") return;
    // A provider may report too little, so at least the tokens that were received count.
    this.#unreportedUsage.tokens += Math.max(0, meter.minTokens - usage.outputTokens);
    const reportedCost = costOf(usage, model.prices, this.#limits.unknownPrice);
    if (model.prices)
      this.#unreportedUsage.usd += Math.max(0, costOf({ ...usage, costReported: false }, model.prices) - reportedCost);
  }

  async addCost(estimatedUsage: ModelUsage): Promise<ModelUsage> {
    const { provider, model } = this.#owner;
    const prices =
      model.prices ?? (this.#hasCostLimit ? await provider.prices?.(model, estimatedUsage.inputTokens) : undefined);
    return prices === undefined ? estimatedUsage : { ...estimatedUsage, cost: costOf(estimatedUsage, prices) };
  }

  async recordInterrupted(purpose: ModelPurpose, estimatedUsage: ModelUsage): Promise<void> {
    if (purpose === "title") return;
    const { model, recorder } = this.#owner;
    try {
      const usage = toUsage(await this.addCost(estimatedUsage), model.prices, this.#limits.unknownPrice);
      await recorder.write({ sync: false, usage });
    } catch {
      // The error that prevents the write also ends the run.
    }
  }

  /** Returns the current reservation of a subagent; undefined if it has no active call. */
  findReservation(subagentRunId: string): Amount | undefined {
    return this.#reservations.get(subagentRunId);
  }

  /**
   * Ends the reservation of a subagent after its call was counted or failed. `amount` identifies the call, because the
   * next call may already have a reservation. Default: the current reservation.
   */
  releaseReservation(subagentRunId: string, amount = this.#reservations.get(subagentRunId)): void {
    if (amount === undefined || this.#reservations.get(subagentRunId) !== amount) return;
    this.#reservations.delete(subagentRunId);
    this.#updateParentReservation();
    for (const resume of this.#releaseCallbacks.splice(0)) resume();
  }

  /** Returns the answer tokens that the budget covers after the prompt; negative if it does not cover the prompt. */
  #countAffordableTokens(promptTokens: number, prices: ModelPrices): number {
    const remainingAmount = this.#computeRemaining();
    const tokens = remainingAmount.tokens - promptTokens;
    if (remainingAmount.usd === Infinity) return tokens;
    const usd = remainingAmount.usd - computeMaxCost(promptTokens, 0, prices).usd;
    if (prices.output === 0) return usd < 0 ? -1 : tokens;
    return Math.min(tokens, Math.floor((usd * 1_000_000) / prices.output));
  }

  /** Returns the remaining amount for a subagent, or for the run itself if `subagentRunId` is undefined. */
  #computeRemaining(subagentRunId?: string): Amount {
    const { parentBudget, recorder } = this.#owner;
    const { run, sessionUsage } = recorder;
    const reserved = this.#sumReservations(subagentRunId);
    const computeUnused = (key: keyof Amount, usedByRun: number, usedBySession: number) => {
      const { budget, sessionBudget } = this.#limits;
      const { [key]: runLimit = Infinity } = budget;
      const { [key]: sessionLimit = Infinity } = sessionBudget;
      const unusedAmount = Math.min(runLimit - usedByRun, sessionLimit - usedBySession);
      // A resource without a limit needs no reservation.
      return unusedAmount === Infinity ? unusedAmount : unusedAmount - this.#unreportedUsage[key] - reserved[key];
    };
    const runAmount = {
      usd: computeUnused("usd", run.usage.cost, sessionUsage.cost),
      tokens: computeUnused("tokens", run.usage.totalTokens, sessionUsage.totalTokens),
    };
    if (!parentBudget) return runAmount;
    const parentAmount = parentBudget.#computeRemaining(run.id);
    return { usd: Math.min(runAmount.usd, parentAmount.usd), tokens: Math.min(runAmount.tokens, parentAmount.tokens) };
  }

  /** Sums all reservations except that of `subagentRunId`. */
  #sumReservations(subagentRunId: string | undefined): Amount {
    const sum: Amount = { usd: 0, tokens: 0 };
    for (const [runId, { usd, tokens }] of this.#reservations) {
      if (runId === subagentRunId) continue;
      sum.usd += usd;
      sum.tokens += tokens;
    }
    return sum;
  }

  #reserve(subagentRunId: string, amount: Amount): void {
    this.#reservations.set(subagentRunId, amount);
    this.#updateParentReservation();
  }

  /** Passes the reservations of nested subagents on to the parent budget. */
  #updateParentReservation(): void {
    const { parentBudget, recorder } = this.#owner;
    if (!parentBudget) return;
    if (this.#reservations.size > 0) parentBudget.#reserve(recorder.run.id, this.#sumReservations(undefined));
    else parentBudget.releaseReservation(recorder.run.id);
  }

  /** Whether a run other than this subagent holds a reservation. */
  #hasOtherReservations(subagentRunId: string): boolean {
    const { parentBudget, recorder } = this.#owner;
    return (
      [...this.#reservations.keys()].some((runId) => runId !== subagentRunId) ||
      (parentBudget !== undefined && parentBudget.#hasOtherReservations(recorder.run.id))
    );
  }

  /** Resolves when a reservation ends. */
  async #waitForRelease(): Promise<void> {
    const { parentBudget } = this.#owner;
    const ownRelease = new Promise<void>((resolve) => this.#releaseCallbacks.push(resolve));
    await (parentBudget ? Promise.race([ownRelease, parentBudget.#waitForRelease()]) : ownRelease);
  }

  get #hasCostLimit(): boolean {
    return (
      hasCostLimit(this.#limits) || (this.#owner.parentBudget !== undefined && this.#owner.parentBudget.#hasCostLimit)
    );
  }

  /** Returns the tokens that the provider counted for the conversation, plus an estimate for the newer messages. */
  #countPromptTokens(purpose: ModelPurpose, request: ModelRequest): number {
    const bytes = countRequestBytes(request);
    const countedPrompt =
      purpose === "answer" && this.#countedPrompt && this.#countedPrompt.bytes <= bytes
        ? this.#countedPrompt
        : undefined;
    return (countedPrompt?.tokens ?? 0) + Math.ceil((bytes - (countedPrompt?.bytes ?? 0)) / BYTES_PER_TOKEN);
  }
}

/** Prices when no cost limit applies, or when the provider is free. */
const FREE_PRICES: ModelPrices = { input: 0, output: 0 };

/** Computes the maximum cost of a call, with its prompt at full price. */
function computeMaxCost(promptTokens: number, answerTokens: number, prices: ModelPrices): Amount {
  const { input, output, cacheWrite = input } = prices;
  const answerCost = output === 0 ? 0 : answerTokens * output;
  const usd = (promptTokens * Math.max(input, cacheWrite) + answerCost) / 1_000_000;
  return { usd, tokens: promptTokens + answerTokens };
}

/**
 * Returns the prices of a model. Rejects with `ModelSelectionError` if they are unknown, because a cost limit could not
 * be enforced.
 */
export async function requirePrices(
  provider: ModelProvider,
  model: Model,
  promptTokens: number,
  unknownPrice: ModelPrices | undefined,
): Promise<ModelPrices> {
  const prices =
    model.prices ??
    (await provider.prices?.(model, promptTokens)) ??
    unknownPrice ??
    (provider.isFree === true ? FREE_PRICES : undefined);
  if (prices) return prices;
  throw new ModelSelectionError(
    `the price of ${provider.name}/${model.id} is unknown, so the budget in USD cannot be enforced; set limits.unknown_price`,
  );
}

function countRequestBytes(request: ModelRequest): number {
  const { messages } = request;
  return bytesOfPrefix(request) + bytesOfAll(messages) + messages.length * MESSAGE_FORMAT_BYTES;
}
