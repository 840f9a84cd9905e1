import type { Tool } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { createToolList, type ToolList } from "../input/run-input.js";

type ToolEntries = readonly (Tool | ToolSource)[];
type CreateTools = () => Promise<ToolEntries>;

/**
 * The agent's own tools. Tools from a function are created at the first use, so that starting the agent does not need
 * them.
 */
export class AgentTools {
  readonly #createTools: CreateTools | undefined;
  #list: ToolList;
  #loadPromise: Promise<ToolList> | undefined;

  /** Throws `InputError` for invalid tools or duplicate names. */
  constructor(tools: ToolEntries | CreateTools = []) {
    this.#createTools = typeof tools === "function" ? tools : undefined;
    this.#list = createPersistentList(typeof tools === "function" ? [] : tools);
  }

  /** The tools created so far. */
  get list(): ToolList {
    return this.#list;
  }

  /** Creates all tools. Rejects with the error of the function, or `InputError`; the next call tries again. */
  load(): Promise<ToolList> {
    if (!this.#createTools) return Promise.resolve(this.#list);
    if (this.#loadPromise) return this.#loadPromise;
    const loadPromise = this.#load(this.#createTools);
    this.#loadPromise = loadPromise;
    loadPromise.catch(() => (this.#loadPromise = undefined));
    return loadPromise;
  }

  async #load(createTools: CreateTools): Promise<ToolList> {
    return (this.#list = createPersistentList(await createTools()));
  }
}

/** Marks the agent's own sources as persistent: they stay open after a run. */
function createPersistentList(entries: ToolEntries): ToolList {
  const list = createToolList(entries);
  return { ...list, persistentSources: list.sources };
}
