import { ENVIRONMENT_KEY, type StateChanges } from "../../conversation/stored-state.js";
import type { Tool, ToolKind } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import type { Project } from "../../project/project.js";
import { parseEnvironment, today, type Environment } from "../../project/environment.js";

const FILE_TOOL_KINDS: readonly ToolKind[] = ["read", "search", "edit", "delete", "execute"];

/** Whether any of the tools works on files. Without such a tool the prompt does not describe the folder. */
export function worksOnFiles(tools: readonly (Tool | ToolSource)[]): boolean {
  return tools.some((tool) => "kind" in tool && FILE_TOOL_KINDS.includes(tool.kind));
}

/** The environment that a run's prompt describes. */
export interface SessionEnvironment {
  readonly environment: Environment;
  /** State to store with the prompt, so that every process uses the same environment for the session. */
  readonly newState: StateChanges;
}

/**
 * Returns the environment that the session already used today for this folder. Otherwise it is read now, and also set
 * in `state`. `looking`: a read that was started before it was known whether one is needed.
 */
export async function loadEnvironment(
  project: Project,
  projectDir: string,
  isOnFiles: boolean,
  state: Map<string, unknown>,
  looking: Promise<Environment> | undefined,
): Promise<SessionEnvironment> {
  const storedEnvironment = parseEnvironment(state.get(ENVIRONMENT_KEY));
  if (storedEnvironment?.day === today() && storedEnvironment.folder === projectDir)
    return { environment: storedEnvironment, newState: {} };
  if (!isOnFiles) return { environment: { day: today(), folder: projectDir, git: "", tree: "" }, newState: {} };
  const surroundings = await (looking ?? project.environment(projectDir));
  state.set(ENVIRONMENT_KEY, surroundings);
  return { environment: surroundings, newState: { [ENVIRONMENT_KEY]: surroundings } };
}
