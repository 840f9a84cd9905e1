import { ENVIRONMENT_KEY, type StateChanges } from "../../conversation/stored-state.js";
import type { Tool, ToolKind } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";
import type { Project } from "../../project/project.js";
import { parseEnvironment, formatToday, type Environment } from "../../project/environment.js";

const PROJECT_TOOL_KINDS: readonly ToolKind[] = ["read", "search", "edit", "delete", "execute"];

/** Whether any of the tools works on files. Without such a tool the prompt does not describe the folder. */
export function worksOnFiles(tools: readonly (Tool | ToolSource)[]): boolean {
  return tools.some((tool) => "kind" in tool && PROJECT_TOOL_KINDS.includes(tool.kind));
}

/** The environment that a run's prompt describes. */
export interface SessionEnvironment {
  readonly environment: Environment;
  /** State to store with the prompt, so that every process uses the same environment for the session. */
  readonly newState: StateChanges;
}

/**
 * Returns the environment that the session already used today for this folder. Otherwise reads the environment and
 * stores the result in `state`. `environmentPromise`: a read that was started early; undefined if none was started.
 */
export async function loadEnvironment(
  project: Project,
  projectDir: string,
  usesFiles: boolean,
  state: Map<string, unknown>,
  environmentPromise: Promise<Environment> | undefined,
): Promise<SessionEnvironment> {
  const storedEnvironment = parseEnvironment(state.get(ENVIRONMENT_KEY));
  if (storedEnvironment?.day === formatToday() && storedEnvironment.folder === projectDir)
    return { environment: storedEnvironment, newState: {} };
  if (!usesFiles) return { environment: { day: formatToday(), folder: projectDir, git: "", tree: "" }, newState: {} };
  const environment = await (environmentPromise ?? project.environment(projectDir));
  state.set(ENVIRONMENT_KEY, environment);
  return { environment, newState: { [ENVIRONMENT_KEY]: environment } };
}
