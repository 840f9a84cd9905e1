import type { Tool } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { toolList, type ToolList } from "../input/run-input.js";

type Entries = readonly (Tool | ToolSource)[];
type Make = () => Promise<Entries>;

/**
 * The agent's own tools. Tools from a function are created at the first use, so that starting the agent does not need
 * them.
 */
export class AgentTools {
  readonly #make: Make | undefined;
  #list: ToolList;
  #making: Promise<ToolList> | undefined;

  /** Throws `InputError` for invalid tools or duplicate names. */
  constructor(given: Entries | Make = []) {
    this.#make = typeof given === "function" ? given : undefined;
    this.#list = lasting(typeof given === "function" ? [] : given);
  }

  /** The tools created so far. */
  get list(): ToolList {
    return this.#list;
  }

  /** Creates all tools. Rejects with the error of the function, or `InputError`; the next call tries again. */
  load(): Promise<ToolList> {
    if (!this.#make) return Promise.resolve(this.#list);
    if (this.#making) return this.#making;
    const making = this.#load(this.#make);
    this.#making = making;
    making.catch(() => (this.#making = undefined));
    return making;
  }

  async #load(make: Make): Promise<ToolList> {
    return (this.#list = lasting(await make()));
  }
}

/** Marks the agent's own sources as persistent: they stay open after a run. */
function lasting(given: Entries): ToolList {
  const list = toolList(given);
  return { ...list, lasting: list.sources };
}
