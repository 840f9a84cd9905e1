import type { Logger, ProviderError } from "gantry";
import { findRejectedParameter } from "./parameter-rejection.js";
import type { OptionalParameter } from "./wires/wire.js";

const OPPOSITES: Readonly<Partial<Record<OptionalParameter, OptionalParameter>>> = { echo: "no_echo", no_echo: "echo" };

/** Parameters that each model rejected. Later calls of this process omit them. */
export class RejectedParameters {
  readonly #byModel = new Map<string, Set<OptionalParameter>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  of(model: string): ReadonlySet<OptionalParameter> {
    return this.#byModel.get(model) ?? new Set();
  }

  /**
   * Stores the parameter that the model rejected. Returns whether a retry without the parameter may succeed: the
   * parameter was sent and is not settled. A server may reject a parameter and its absence. The opposite therefore
   * becomes settled, so that there are only two attempts.
   */
  learn(
    model: string,
    fault: ProviderError,
    sentParameters: ReadonlySet<OptionalParameter>,
    settledParameters: Set<OptionalParameter>,
  ): boolean {
    const parameter = findRejectedParameter(fault, sentParameters);
    if (parameter === undefined || settledParameters.has(parameter)) return false;
    const rejected = new Set([...this.of(model), parameter]);
    const opposite = OPPOSITES[parameter];
    if (opposite !== undefined) {
      rejected.delete(opposite);
      settledParameters.add(opposite);
    }
    this.#byModel.set(model, rejected);
    this.#logger?.info("model rejected a parameter; omitting it from now on", { model, parameter });
    return true;
  }
}
