import type { Logger, ProviderError } from "gantry";
import { refusedParameter } from "./refused-parameter.js";
import type { Optional } from "./wires/wire.js";

/** What each model is known to refuse. A model's own limits are learnt once; every later call of this process leaves the parameter out. */
export class Refusals {
  readonly #byModel = new Map<string, Set<Optional>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  of(model: string): ReadonlySet<Optional> {
    return this.#byModel.get(model) ?? new Set();
  }

  /** Whether a model refused one of the parameters that were `sent` and not known to be refused then, so that it is asked again without. */
  learn(model: string, fault: ProviderError, sent: ReadonlySet<Optional>, known: ReadonlySet<Optional>): boolean {
    const parameter = refusedParameter(fault, sent);
    if (parameter === undefined || known.has(parameter)) return false;
    this.#byModel.set(model, new Set([...this.of(model), parameter]));
    this.#logger?.info("the model refuses a parameter, which is left out from now on", { model, parameter });
    return true;
  }
}
