import type { Logger } from "../../ports/logger.js";
import type { Tool } from "../../ports/tool.js";

/**
 * Selects the tools that a run's model receives: those that suit the model, the user and the skills. Tools that another
 * selected tool replaces are left out.
 */
export function selectOfferedTools(
  tools: readonly Tool[],
  model: { readonly provider: string; readonly id: string },
  features: { readonly canAskUser: boolean; readonly hasSkills: boolean },
  logger: Logger,
): Tool[] {
  const suitableTools = tools.filter(
    (tool) =>
      (features.canAskUser || tool.needsUser !== true) &&
      (features.hasSkills || tool.needsSkills !== true) &&
      supportsModel(tool, model, logger),
  );
  const replacedNames = new Set(suitableTools.flatMap(({ replaces }) => replaces ?? []));
  return suitableTools.filter(({ name }) => !replacedNames.has(name));
}

function supportsModel(tool: Tool, model: { readonly provider: string; readonly id: string }, logger: Logger): boolean {
  try {
    return tool.models === undefined || tool.models(model) === true;
  } catch (error) {
    logger.warn("model check of a tool failed; tool not offered", { tool: tool.name, error });
    return false;
  }
}
