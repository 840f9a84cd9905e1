import type { AdmittedCall, Allowance, Meter } from "../../models/allowance.js";
import { bytesOfAll, BYTES_PER_TOKEN, prefixBytes } from "../../models/estimate.js";
import { costOf, toUsage } from "../../models/usage.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { ModelPurpose } from "../../ports/bus-events.js";
import { abortable } from "../../base/abort.js";
import { BudgetExceededError, ModelSelectionError } from "../../ports/errors.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest, ModelUsage } from "../../ports/model-provider.js";
import { hasCostLimit, type BudgetLimits } from "./budget.js";

/** Minimum answer tokens of a call. Fewer are useless, and some providers reject such a low limit. */
const MIN_ANSWER_TOKENS = 16;
/**
 * Highest answer limit sent to a model whose maximum answer is unknown, in tokens. The provider may reject a higher
 * one. Reasoning tokens count as answer tokens.
 */
const MAX_SENT_ANSWER_TOKENS = { plain: 4_096, reasoning: 32_000 };
/**
 * A reported prompt size is trusted if it has at least one token per this many bytes. Some servers omit cached tokens.
 */
const MAX_BYTES_PER_TOKEN = 8;

/** The members of a run that its budget uses. */
export interface BudgetOwner {
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly recorder: Pick<Recorder, "run" | "sessionUsage" | "write">;
  /** The run's signal. Set for subagent runs only. */
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
 * Enforces the budget of one run's model calls. A call is admitted only if the budget covers it in advance. Its prompt
 * is estimated at full price, as if nothing were cached. Its answer is limited to the remaining tokens.
 *
 * Calls of subagents reserve their maximum while they run. If too little remains for a full answer, the next call waits
 * for a reservation to end.
 */
export class RunBudget implements Allowance {
  readonly #limits: BudgetLimits;
  readonly #owner: BudgetOwner;
  /** Amounts used that the run's reported usage does not include. */
  readonly #unreportedUsage: Amount = { usd: 0, tokens: 0 };
  /** Reservations of active subagent calls, by run id. */
  readonly #reservations = new Map<string, Amount>();
  /** Callbacks of calls that wait for a reservation to end. */
  #waiting: (() => void)[] = [];
  /**
   * Size of the newest conversation prompt in bytes, and its tokens as counted by the provider. Undefined: no count is
   * valid.
   */
  #counted: { bytes: number; tokens: number } | undefined;

  constructor(purse: BudgetLimits, spender: BudgetOwner) {
    this.#limits = purse;
    this.#owner = spender;
  }

  async admit(purpose: ModelPurpose, request: ModelRequest): Promise<AdmittedCall> {
    const promptTokens = this.#promptTokens(purpose, request);
    const prices = this.#hasCostLimit ? await this.#prices(promptTokens) : FREE_PRICES;
    const { model, maxTokens = Infinity } = request;
    const natural = Math.min(maxTokens, model.maxOutput ?? Infinity);
    const tellable =
      natural < Infinity ? natural : MAX_SENT_ANSWER_TOKENS[model.reasoning === true ? "reasoning" : "plain"];
    // Prompt and answer share the window. Many providers reject a request whose answer limit exceeds the rest of the
    // window.
    const room = Math.floor(((model.contextWindow ?? Infinity) - promptTokens) * 0.95);
    const usableTokens = Math.min(natural, room);
    const { parentBudget, signal, recorder } = this.#owner;
    const runId = recorder.run.id;
    let most = this.#affordable(promptTokens, prices);
    while (parentBudget && signal && most < usableTokens && parentBudget.#hasOtherReservations(runId)) {
      await abortable(parentBudget.#nextRelease(), signal);
      most = this.#affordable(promptTokens, prices);
    }
    if (most < MIN_ANSWER_TOKENS) throw new BudgetExceededError();
    // No await since the check, so that no other call can reserve the same amount.
    if (parentBudget) parentBudget.#reserve(runId, maxCost(promptTokens, Math.min(most, usableTokens), prices));
    const isLess = most < usableTokens;
    const bounded = isLess && most <= tellable;
    return {
      request: bounded ? { ...request, maxTokens: most } : request,
      promptTokens,
      maxAnswerTokens: most,
      hasAnswerLimit: bounded,
      isUnbounded: isLess && !bounded,
    };
  }

  recordAnswer(purpose: ModelPurpose, { request }: AdmittedCall, meter: Meter, usage: ModelUsage): void {
    const { model } = this.#owner;
    const bytes = bytesOf(request);
    if (purpose === "answer")
      this.#counted =
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

  async estimateCost(estimated: ModelUsage): Promise<ModelUsage> {
    const { provider, model } = this.#owner;
    const prices =
      model.prices ?? (this.#hasCostLimit ? await provider.prices?.(model, estimated.inputTokens) : undefined);
    return prices === undefined ? estimated : { ...estimated, cost: costOf(estimated, prices) };
  }

  async recordInterrupted(purpose: ModelPurpose, estimated: ModelUsage): Promise<void> {
    if (purpose === "title") return;
    const { model, recorder } = this.#owner;
    try {
      const usage = toUsage(await this.estimateCost(estimated), model.prices, this.#limits.unknownPrice);
      await recorder.write({ sync: false, usage });
    } catch {
      // The error that prevents the write also ends the run.
    }
  }

  /** The current reservation of a subagent; undefined if it has no active call. */
  reserveFor(helper: string): Amount | undefined {
    return this.#reservations.get(helper);
  }

  /**
   * Ends the reservation of a subagent after its call was counted or failed. `amount` identifies the call, because the
   * next one may already have a reservation.
   */
  releaseReservation(helper: string, amount = this.#reservations.get(helper)): void {
    if (amount === undefined || this.#reservations.get(helper) !== amount) return;
    this.#reservations.delete(helper);
    this.#extendReservations();
    for (const go of this.#waiting.splice(0)) go();
  }

  /** Maximum answer tokens that the budget covers after the prompt. Negative if it does not cover the prompt. */
  #affordable(promptTokens: number, prices: ModelPrices): number {
    const remainingAmount = this.#remaining();
    const tokens = remainingAmount.tokens - promptTokens;
    if (remainingAmount.usd === Infinity) return tokens;
    const usd = remainingAmount.usd - maxCost(promptTokens, 0, prices).usd;
    if (prices.output === 0) return usd < 0 ? -1 : tokens;
    return Math.min(tokens, Math.floor((usd * 1_000_000) / prices.output));
  }

  /** The remaining amount for a subagent, or for the run itself if `helper` is undefined. */
  #remaining(helper?: string): Amount {
    const { parentBudget, recorder } = this.#owner;
    const { run, sessionUsage } = recorder;
    const lent = this.#reservedExcept(helper);
    const remainingOf = (key: keyof Amount, ofRun: number, ofSession: number) => {
      const {
        run: { [key]: mostOfRun = Infinity },
        session: { [key]: mostOfSession = Infinity },
      } = this.#limits;
      const least = Math.min(mostOfRun - ofRun, mostOfSession - ofSession);
      // A resource without a limit needs no reservation.
      return least === Infinity ? least : least - this.#unreportedUsage[key] - lent[key];
    };
    const runAmount = {
      usd: remainingOf("usd", run.usage.cost, sessionUsage.cost),
      tokens: remainingOf("tokens", run.usage.totalTokens, sessionUsage.totalTokens),
    };
    if (!parentBudget) return runAmount;
    const above = parentBudget.#remaining(run.id);
    return { usd: Math.min(runAmount.usd, above.usd), tokens: Math.min(runAmount.tokens, above.tokens) };
  }

  #reservedExcept(helper: string | undefined): Amount {
    const sum: Amount = { usd: 0, tokens: 0 };
    for (const [runId, { usd, tokens }] of this.#reservations) {
      if (runId === helper) continue;
      sum.usd += usd;
      sum.tokens += tokens;
    }
    return sum;
  }

  #reserve(helper: string, amount: Amount): void {
    this.#reservations.set(helper, amount);
    this.#extendReservations();
  }

  /** Passes the reservations of nested subagents on to the parent budget. */
  #extendReservations(): void {
    const { parentBudget, recorder } = this.#owner;
    if (!parentBudget) return;
    if (this.#reservations.size > 0) parentBudget.#reserve(recorder.run.id, this.#reservedExcept(undefined));
    else parentBudget.releaseReservation(recorder.run.id);
  }

  /** Whether a run other than this subagent holds a reservation. */
  #hasOtherReservations(helper: string): boolean {
    const { parentBudget, recorder } = this.#owner;
    return (
      [...this.#reservations.keys()].some((runId) => runId !== helper) ||
      (parentBudget !== undefined && parentBudget.#hasOtherReservations(recorder.run.id))
    );
  }

  /** Resolves when a reservation ends. */
  async #nextRelease(): Promise<void> {
    const { parentBudget } = this.#owner;
    const ownRelease = new Promise<void>((resolve) => this.#waiting.push(resolve));
    await (parentBudget ? Promise.race([ownRelease, parentBudget.#nextRelease()]) : ownRelease);
  }

  get #hasCostLimit(): boolean {
    return (
      hasCostLimit(this.#limits) || (this.#owner.parentBudget !== undefined && this.#owner.parentBudget.#hasCostLimit)
    );
  }

  #prices(promptTokens: number): Promise<ModelPrices> {
    const { provider, model } = this.#owner;
    return pricesOf(provider, model, promptTokens, this.#limits.unknownPrice);
  }

  /** Tokens that the provider counted for the conversation, plus an estimate of the newer messages from their bytes. */
  #promptTokens(purpose: ModelPurpose, request: ModelRequest): number {
    const bytes = bytesOf(request);
    const counted = purpose === "answer" && this.#counted && this.#counted.bytes <= bytes ? this.#counted : undefined;
    return (counted?.tokens ?? 0) + Math.ceil((bytes - (counted?.bytes ?? 0)) / BYTES_PER_TOKEN);
  }
}

/** Prices when no cost limit applies, or when the provider is free. */
const FREE_PRICES: ModelPrices = { input: 0, output: 0 };

/** Maximum cost of a call, with its prompt at full price. */
function maxCost(promptTokens: number, answerTokens: number, prices: ModelPrices): Amount {
  const { input, output, cacheWrite = input } = prices;
  const answer = output === 0 ? 0 : answerTokens * output;
  const usd = (promptTokens * Math.max(input, cacheWrite) + answer) / 1_000_000;
  return { usd, tokens: promptTokens + answerTokens };
}

/**
 * Prices of a model. Rejects with `ModelSelectionError` if they are unknown, because a cost limit could not be
 * enforced.
 */
export async function pricesOf(
  provider: ModelProvider,
  model: Model,
  promptTokens: number,
  unknown: ModelPrices | undefined,
): Promise<ModelPrices> {
  const prices =
    model.prices ??
    (await provider.prices?.(model, promptTokens)) ??
    unknown ??
    (provider.isFree === true ? FREE_PRICES : undefined);
  if (prices) return prices;
  throw new ModelSelectionError(
    `the price of ${provider.name}/${model.id} is unknown, so the budget in USD cannot be enforced; set limits.unknown_price`,
  );
}

function bytesOf(request: ModelRequest): number {
  return prefixBytes(request) + bytesOfAll(request.messages);
}
