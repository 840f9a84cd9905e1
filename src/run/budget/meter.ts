import type { Admitted, Allowance, Meter } from "../../models/allowance.js";
import { bytesOfAll, BYTES_PER_TOKEN, frameBytes } from "../../models/estimate.js";
import { costOf, toUsage } from "../../models/usage.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { ModelPurpose } from "../../ports/bus-events.js";
import { abortable } from "../../base/abort.js";
import { BudgetSpentError, ModelSelectionError } from "../../ports/errors.js";
import type { Model, ModelPrices, ModelProvider, ModelRequest, ModelUsage } from "../../ports/model-provider.js";
import { isOfMoney, type Purse } from "./budget.js";

/** Fewer tokens are no answer, and some providers refuse to give so few. */
const LEAST_ANSWER = 16;
/** Of a model whose longest answer nobody knows: a limit beyond it may be refused, so that it is not told. Reasoning counts to an answer. */
const TELLABLE = { plain: 4_096, reasoning: 32_000 };
/** A reported prompt is believed when it has at least one token for so many bytes; some servers leave cached tokens out. */
const PLAUSIBLE_BYTES = 8;

/** What of a run its budget knows. */
export interface Spender {
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly recorder: Pick<Recorder, "run" | "sessionUsage" | "write">;
  /** Of a helper, its run's. */
  readonly signal?: AbortSignal;
  /** Of a helper, what its asker may spend: it spends of the same. */
  readonly asker?: RunBudget | undefined;
}

/** An amount of both that a budget counts. */
interface Amount {
  usd: number;
  tokens: number;
}

/**
 * What the model calls of one run may spend. Each is paid for before it is made: its prompt, estimated and at its full
 * price, as if the provider had kept nothing of it; and its answer is no longer than what is left then. What calls of
 * helpers may take is set aside while they are made: where that leaves too little for a whole answer, the next waits for it.
 */
export class RunBudget implements Allowance {
  readonly #purse: Purse;
  readonly #spender: Spender;
  /** Spent beyond what the run's usage says. */
  readonly #beyond: Amount = { usd: 0, tokens: 0 };
  /** What a call of each helper may take, by the helper's run. */
  readonly #lent = new Map<string, Amount>();
  /** Who waits for what is lent. */
  #waiting: (() => void)[] = [];
  /** Bytes and tokens of the newest prompt of the conversation, as the provider counted it. */
  #counted: { bytes: number; tokens: number } | undefined;

  constructor(purse: Purse, spender: Spender) {
    this.#purse = purse;
    this.#spender = spender;
  }

  async admit(purpose: ModelPurpose, request: ModelRequest): Promise<Admitted> {
    const promptTokens = this.#promptTokens(purpose, request);
    const prices = this.#money ? await this.#prices(promptTokens) : FREE;
    const { model, maxTokens = Infinity } = request;
    const natural = Math.min(maxTokens, model.maxOutput ?? Infinity);
    const tellable = natural < Infinity ? natural : TELLABLE[model.reasoning === true ? "reasoning" : "plain"];
    // Prompt and answer share the window: many providers refuse a request that allows for more.
    const room = Math.floor(((model.contextWindow ?? Infinity) - promptTokens) * 0.95);
    const whole = Math.min(natural, room);
    const { asker, signal, recorder } = this.#spender;
    const own = recorder.run.id;
    let most = this.#affordable(promptTokens, prices);
    while (asker && signal && most < whole && asker.#lends(own)) {
      await abortable(asker.#settling(), signal);
      most = this.#affordable(promptTokens, prices);
    }
    if (most < LEAST_ANSWER) throw new BudgetSpentError();
    // In the same turn, so that no other is promised the same.
    if (asker) asker.#lend(own, costs(promptTokens, Math.min(most, whole), prices));
    const isLess = most < whole;
    const bounded = isLess && most <= tellable;
    return {
      request: bounded ? { ...request, maxTokens: most } : request,
      promptTokens,
      most,
      bounded,
      free: isLess && !bounded,
    };
  }

  answered(purpose: ModelPurpose, { request }: Admitted, meter: Meter, usage: ModelUsage): void {
    const { model } = this.#spender;
    const bytes = bytesOf(request);
    if (purpose === "answer")
      this.#counted =
        !usage.estimated && usage.inputTokens * PLAUSIBLE_BYTES >= bytes
          ? { bytes, tokens: usage.inputTokens }
          : undefined;
    // Of a title nothing counts.
    if (purpose === "title") return;
    // Whoever tells too little is not believed.
    this.#beyond.tokens += Math.max(0, meter.least - usage.outputTokens);
    const told = costOf(usage, model.prices, this.#purse.unknownPrice);
    if (model.prices) this.#beyond.usd += Math.max(0, costOf({ ...usage, costReported: false }, model.prices) - told);
  }

  async priced(estimated: ModelUsage): Promise<ModelUsage> {
    const { provider, model } = this.#spender;
    const prices = model.prices ?? (this.#money ? await provider.prices?.(model, estimated.inputTokens) : undefined);
    return prices === undefined ? estimated : { ...estimated, cost: costOf(estimated, prices) };
  }

  async brokeOff(purpose: ModelPurpose, estimated: ModelUsage): Promise<void> {
    if (purpose === "title") return;
    const { model, recorder } = this.#spender;
    try {
      const usage = toUsage(await this.priced(estimated), model.prices, this.#purse.unknownPrice);
      await recorder.write({ sync: false, usage });
    } catch {
      // Whatever keeps it from being stored ends the run by itself.
    }
  }

  /** What a call of a helper may take now; undefined: it makes none. */
  lentTo(helper: string): Amount | undefined {
    return this.#lent.get(helper);
  }

  /** What a helper's call took is counted, or it took nothing; `amount`: that call's, of which there may be a next one already. */
  returned(helper: string, amount = this.#lent.get(helper)): void {
    if (amount === undefined || this.#lent.get(helper) !== amount) return;
    this.#lent.delete(helper);
    this.#lendOn();
    for (const go of this.#waiting.splice(0)) go();
  }

  /** Tokens of answer that there are enough for behind a prompt; below 0 where the prompt alone is too much. */
  #affordable(promptTokens: number, prices: ModelPrices): number {
    const left = this.#left();
    const tokens = left.tokens - promptTokens;
    if (left.usd === Infinity) return tokens;
    const usd = left.usd - costs(promptTokens, 0, prices).usd;
    if (prices.output === 0) return usd < 0 ? -1 : tokens;
    return Math.min(tokens, Math.floor((usd * 1_000_000) / prices.output));
  }

  /** What is left for a helper, or where none is named for the run itself. */
  #left(helper?: string): Amount {
    const { asker, recorder } = this.#spender;
    const { run, sessionUsage } = recorder;
    const lent = this.#lentBut(helper);
    const left = (key: keyof Amount, ofRun: number, ofSession: number) => {
      const {
        run: { [key]: mostOfRun = Infinity },
        session: { [key]: mostOfSession = Infinity },
      } = this.#purse;
      const least = Math.min(mostOfRun - ofRun, mostOfSession - ofSession);
      // Of what nobody counts any amount may be lent.
      return least === Infinity ? least : least - this.#beyond[key] - lent[key];
    };
    const own = {
      usd: left("usd", run.usage.cost, sessionUsage.cost),
      tokens: left("tokens", run.usage.totalTokens, sessionUsage.totalTokens),
    };
    if (!asker) return own;
    const above = asker.#left(run.id);
    return { usd: Math.min(own.usd, above.usd), tokens: Math.min(own.tokens, above.tokens) };
  }

  #lentBut(helper: string | undefined): Amount {
    const sum: Amount = { usd: 0, tokens: 0 };
    for (const [one, { usd, tokens }] of this.#lent) {
      if (one === helper) continue;
      sum.usd += usd;
      sum.tokens += tokens;
    }
    return sum;
  }

  #lend(helper: string, amount: Amount): void {
    this.#lent.set(helper, amount);
    this.#lendOn();
  }

  /** What helpers of a helper may take, it may. */
  #lendOn(): void {
    const { asker, recorder } = this.#spender;
    if (!asker) return;
    if (this.#lent.size > 0) asker.#lend(recorder.run.id, this.#lentBut(undefined));
    else asker.returned(recorder.run.id);
  }

  /** Whether somebody but this helper may be spending. */
  #lends(helper: string): boolean {
    const { asker, recorder } = this.#spender;
    return (
      [...this.#lent.keys()].some((one) => one !== helper) || (asker !== undefined && asker.#lends(recorder.run.id))
    );
  }

  /** Resolves when something that is lent is so no more. */
  async #settling(): Promise<void> {
    const { asker } = this.#spender;
    const here = new Promise<void>((resolve) => this.#waiting.push(resolve));
    await (asker ? Promise.race([here, asker.#settling()]) : here);
  }

  get #money(): boolean {
    return isOfMoney(this.#purse) || (this.#spender.asker !== undefined && this.#spender.asker.#money);
  }

  #prices(promptTokens: number): Promise<ModelPrices> {
    const { provider, model } = this.#spender;
    return pricesOf(provider, model, promptTokens, this.#purse.unknownPrice);
  }

  /** What the provider counted of the conversation, and what came since by its bytes. */
  #promptTokens(purpose: ModelPurpose, request: ModelRequest): number {
    const bytes = bytesOf(request);
    const counted = purpose === "answer" && this.#counted && this.#counted.bytes <= bytes ? this.#counted : undefined;
    return (counted?.tokens ?? 0) + Math.ceil((bytes - (counted?.bytes ?? 0)) / BYTES_PER_TOKEN);
  }
}

/** What nobody counts in money costs nothing. */
const FREE: ModelPrices = { input: 0, output: 0 };

/** What a call takes at most: its prompt at its full price. */
function costs(promptTokens: number, answerTokens: number, prices: ModelPrices): Amount {
  const { input, output, cacheWrite = input } = prices;
  const answer = output === 0 ? 0 : answerTokens * output;
  const usd = (promptTokens * Math.max(input, cacheWrite) + answer) / 1_000_000;
  return { usd, tokens: promptTokens + answerTokens };
}

/** What a model takes. Rejects with `ModelSelectionError` where nobody knows: a budget of money would be void. */
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
    (provider.isFree === true ? FREE : undefined);
  if (prices) return prices;
  throw new ModelSelectionError(
    `there is a budget in USD, and nobody knows the price of ${provider.name}/${model.id}; limits.unknown_price says what such models cost`,
  );
}

function bytesOf(request: ModelRequest): number {
  return frameBytes(request) + bytesOfAll(request.messages);
}
