import { SURROUNDINGS, type StateChanges } from "../../conversation/stored-state.js";
import type { Tool, ToolKind } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import type { Project } from "../../project/project.js";
import { asSurroundings, today, type Surroundings } from "../../project/environment.js";

const ON_FILES: readonly ToolKind[] = ["read", "search", "edit", "delete", "execute"];

/** Whether some of these work on files: whoever has none of them is told nothing of the folder. */
export function worksOnFiles(tools: readonly (Tool | ToolSource)[]): boolean {
  return tools.some((tool) => "kind" in tool && ON_FILES.includes(tool.kind));
}

/** What a run is told of the place that it works in. */
export interface ToldSurroundings {
  readonly surroundings: Surroundings;
  /** To be stored with the prompt, so that the session is told the same by any process. */
  readonly news: StateChanges;
}

/**
 * As the session was told today of this folder; what it was never told is looked at now. `looking`: a look that was
 * begun before it was known whether one is needed.
 */
export async function surroundingsFor(
  project: Project,
  projectDir: string,
  isOnFiles: boolean,
  state: Map<string, unknown>,
  looking: Promise<Surroundings> | undefined,
): Promise<ToldSurroundings> {
  const known = asSurroundings(state.get(SURROUNDINGS));
  if (known?.day === today() && known.folder === projectDir) return { surroundings: known, news: {} };
  if (!isOnFiles) return { surroundings: { day: today(), folder: projectDir, git: "", tree: "" }, news: {} };
  const surroundings = await (looking ?? project.surroundings(projectDir));
  state.set(SURROUNDINGS, surroundings);
  return { surroundings, news: { [SURROUNDINGS]: surroundings } };
}
