import type { Tool } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { toolList, type ToolList } from "../input/run-input.js";

type Entries = readonly (Tool | ToolSource)[];
type Make = () => Promise<Entries>;

/** An agent's own tools. Those that somebody makes are there once they were asked for, which no start needs. */
export class AgentTools {
  readonly #make: Make | undefined;
  #list: ToolList;
  #making: Promise<ToolList> | undefined;

  /** Throws `InputError`. */
  constructor(given: Entries | Make = []) {
    this.#make = typeof given === "function" ? given : undefined;
    this.#list = lasting(typeof given === "function" ? [] : given);
  }

  /** As far as they are there. */
  get list(): ToolList {
    return this.#list;
  }

  /** All of them. Rejects with what making them threw, or `InputError`; they are made anew then. */
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

/** Sources of the agent's own outlive a run. */
function lasting(given: Entries): ToolList {
  const list = toolList(given);
  return { ...list, lasting: list.sources };
}
