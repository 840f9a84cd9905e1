import type { Logger, ProviderError } from "gantry";
import { findRejectedParameter } from "./parameter-rejection.js";
import type { OptionalParameter } from "./wires/wire.js";

const OPPOSITE_PARAMETERS: Readonly<Partial<Record<OptionalParameter, OptionalParameter>>> = {
  echo: "no_echo",
  no_echo: "echo",
};

/** Parameters that each model rejected. Later requests of this process omit these parameters. */
export class RejectedParameters {
  readonly #parametersByModelId = new Map<string, Set<OptionalParameter>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  findByModel(modelId: string): ReadonlySet<OptionalParameter> {
    return this.#parametersByModelId.get(modelId) ?? new Set();
  }

  /**
   * Stores the parameter that the model rejected. Returns whether a retry without the parameter may succeed: the
   * parameter was sent and is not settled. A server may reject a parameter and its absence. The opposite therefore
   * becomes settled, so that there are only two attempts.
   */
  recordRejection(
    modelId: string,
    fault: ProviderError,
    sentParameters: ReadonlySet<OptionalParameter>,
    settledParameters: Set<OptionalParameter>,
  ): boolean {
    const parameter = findRejectedParameter(fault, sentParameters);
    if (parameter === undefined || settledParameters.has(parameter)) return false;
    const rejectedParameters = new Set([...this.findByModel(modelId), parameter]);
    const opposite = OPPOSITE_PARAMETERS[parameter];
    if (opposite !== undefined) {
      rejectedParameters.delete(opposite);
      settledParameters.add(opposite);
    }
    this.#parametersByModelId.set(modelId, rejectedParameters);
    this.#logger?.info("model rejected a parameter; omitting it from now on", { model: modelId, parameter });
    return true;
  }
}
