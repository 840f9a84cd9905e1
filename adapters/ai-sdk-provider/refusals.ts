import type { Logger, ModelChunk } from "gantry";
import { refusedParameter } from "./refused-parameter.js";
import type { Optional } from "./wires/wire.js";

/** One try, with what it sends that a model may refuse. */
export interface Attempt {
  readonly sent: ReadonlySet<Optional>;
  readonly chunks: AsyncIterable<ModelChunk>;
}

/** What each model is known to refuse. A model's own limits are learnt once; every later call of this process leaves the parameter out. */
export class Refusals {
  readonly #byModel = new Map<string, Set<Optional>>();
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  /** Try until the provider refuses no parameter any more; never again once something was emitted. */
  async *answer(
    model: string,
    attempt: (refused: ReadonlySet<Optional>) => Promise<Attempt>,
  ): AsyncGenerator<ModelChunk, void, undefined> {
    const refused = this.#byModel.get(model) ?? new Set<Optional>();
    for (;;) {
      const { sent, chunks } = await attempt(refused);
      let emitted = false;
      try {
        for await (const chunk of chunks) {
          emitted = true;
          yield chunk;
        }
        return;
      } catch (error) {
        const parameter = emitted ? undefined : refusedParameter(error, sent);
        if (parameter === undefined || refused.has(parameter)) throw error;
        refused.add(parameter);
        this.#byModel.set(model, refused);
        this.#logger?.info("the model refuses a parameter, which is left out from now on", { model, parameter });
      }
    }
  }
}
