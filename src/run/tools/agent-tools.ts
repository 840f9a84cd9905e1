import type { Tool } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { toolList, type ToolList } from "../input/run-input.js";

type Entries = readonly (Tool | ToolSource)[];
type CreateTools = () => Promise<Entries>;

/**
 * The agent's own tools. Tools from a function are created at the first use, so that starting the agent does not need
 * them.
 */
export class AgentTools {
  readonly #createTools: CreateTools | undefined;
  #list: ToolList;
  #loadPromise: Promise<ToolList> | undefined;

  /** Throws `InputError` for invalid tools or duplicate names. */
  constructor(tools: Entries | CreateTools = []) {
    this.#createTools = typeof tools === "function" ? tools : undefined;
    this.#list = withPersistentSources(typeof tools === "function" ? [] : tools);
  }

  /** The tools created so far. */
  get list(): ToolList {
    return this.#list;
  }

  /** Creates all tools. Rejects with the error of the function, or `InputError`; the next call tries again. */
  load(): Promise<ToolList> {
    if (!this.#createTools) return Promise.resolve(this.#list);
    if (this.#loadPromise) return this.#loadPromise;
    const making = this.#load(this.#createTools);
    this.#loadPromise = making;
    making.catch(() => (this.#loadPromise = undefined));
    return making;
  }

  async #load(make: CreateTools): Promise<ToolList> {
    return (this.#list = withPersistentSources(await make()));
  }
}

/** Marks the agent's own sources as persistent: they stay open after a run. */
function withPersistentSources(entries: Entries): ToolList {
  const list = toolList(entries);
  return { ...list, persistentSources: list.sources };
}
