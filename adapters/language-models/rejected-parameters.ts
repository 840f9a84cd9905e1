import type { Logger, ProviderError } from "gantry";
import { refusedParameter } from "./refused-parameter.js";
import type { Optional } from "./wires/wire.js";

const OPPOSITES: Readonly<Partial<Record<Optional, Optional>>> = { echo: "no_echo", no_echo: "echo" };

/** What each model is known to refuse. A model's own limits are learnt once; every later call of this process leaves the parameter out. */
export class RejectedParameters {
  readonly #byModel = new Map<string, Set<Optional>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  of(model: string): ReadonlySet<Optional> {
    return this.#byModel.get(model) ?? new Set();
  }

  /**
   * Whether a model refused one of the parameters that were `sent` and is not `settled`, so that it is asked again without.
   * A server that refuses a parameter and its absence is asked twice: the opposite becomes `settled`.
   */
  learn(model: string, fault: ProviderError, sent: ReadonlySet<Optional>, settled: Set<Optional>): boolean {
    const parameter = refusedParameter(fault, sent);
    if (parameter === undefined || settled.has(parameter)) return false;
    const refused = new Set([...this.of(model), parameter]);
    const opposite = OPPOSITES[parameter];
    if (opposite !== undefined) {
      refused.delete(opposite);
      settled.add(opposite);
    }
    this.#byModel.set(model, refused);
    this.#logger?.info("the model refuses a parameter, which is left out from now on", { model, parameter });
    return true;
  }
}
