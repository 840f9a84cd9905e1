import type { Logger, ProviderError } from "gantry";
import { rejectedParameter } from "./refused-parameter.js";
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
   * Whether the model rejected a parameter that was `sent` and is not `settled`, so that a retry without it makes
   * sense. If a server rejects a parameter and its absence, there are only two attempts: the opposite becomes
   * `settled`.
   */
  learn(
    model: string,
    fault: ProviderError,
    sent: ReadonlySet<OptionalParameter>,
    settled: Set<OptionalParameter>,
  ): boolean {
    const parameter = rejectedParameter(fault, sent);
    if (parameter === undefined || settled.has(parameter)) return false;
    const refused = new Set([...this.of(model), parameter]);
    const opposite = OPPOSITES[parameter];
    if (opposite !== undefined) {
      refused.delete(opposite);
      settled.add(opposite);
    }
    this.#byModel.set(model, refused);
    this.#logger?.info("model rejected a parameter; omitting it from now on", { model, parameter });
    return true;
  }
}
