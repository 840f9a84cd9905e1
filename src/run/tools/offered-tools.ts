import type { Logger } from "../../ports/logger.js";
import type { Tool } from "../../ports/tool.js";

/**
 * The tools that a run's model receives: those that suit the model, the user and the skills. Tools that another offered
 * tool replaces are left out.
 */
export function offeredTools(
  tools: readonly Tool[],
  model: { readonly provider: string; readonly id: string },
  there: { readonly person: boolean; readonly skills: boolean },
  logger: Logger,
): Tool[] {
  const offered = tools.filter(
    (tool) =>
      (there.person || tool.needsUser !== true) &&
      (there.skills || tool.needsSkills !== true) &&
      supportsModel(tool, model, logger),
  );
  const replaced = new Set(offered.flatMap(({ replaces }) => replaces ?? []));
  return offered.filter(({ name }) => !replaced.has(name));
}

function supportsModel(tool: Tool, model: { readonly provider: string; readonly id: string }, logger: Logger): boolean {
  try {
    return tool.models === undefined || tool.models(model) === true;
  } catch (error) {
    logger.warn("model check of a tool failed; tool not offered", { tool: tool.name, error });
    return false;
  }
}
