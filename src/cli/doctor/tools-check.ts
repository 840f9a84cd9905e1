import { createChildEnvironment } from "../../serve/environment.js";
import { Selection } from "../../serve/selected-adapters.js";
import { TOOL_NAMES } from "../../tools/names.js";
import { Sandbox } from "../../tools/shell/sandbox/sandbox.js";
import {
  createError,
  createOk,
  createSkipped,
  createWarning,
  toReason,
  type DoctorCheck,
  type DoctorContext,
  type Finding,
} from "./finding.js";
import { isOpenToOthers } from "./exposure-check.js";

const INSTALL_BUBBLEWRAP =
  "install bubblewrap (bwrap) and allow user namespaces; docs/tools.md describes the sandbox and its needs";

/** The permission mode, and the sandbox of commands. */
export const toolsCheck: DoctorCheck = {
  group: "Tools",
  run: async (context) => {
    const { mode } = context.loadedConfig.config.permissions;
    const { finding, isSandboxed } = await checkSandbox(context);
    const modeFinding =
      mode === "auto" && !isSandboxed && isOpenToOthers(context)
        ? createError(
            "tools.mode",
            "clients on other machines can run any command as this user",
            'permissions.mode is "auto", commands have no sandbox, and clients do not authenticate',
            'set server.required_headers, tools.bash.sandbox "required", or permissions.mode "ask"',
          )
        : createOk("tools.mode", `new sessions have the mode ${mode}`);
    return [modeFinding, finding, ...(await checkLimits(context))];
  },
};

async function checkLimits({ loadedConfig }: DoctorContext): Promise<Finding[]> {
  const { enabled, limits } = loadedConfig.config.tools.bash;
  if (!enabled || Object.values(limits).every((limit) => limit === undefined)) return [];
  const { describeLimits } = await import("../../tools/shell/command-limits.js");
  const { text, isWeak } = await describeLimits(limits);
  const action = "start gantry in a cgroup that it may divide, as docs/tools.md describes, or remove the limit";
  return [isWeak ? createError("tools.limits", "commands are refused", text, action) : createOk("tools.limits", text)];
}

async function checkSandbox(context: DoctorContext): Promise<{ finding: Finding; isSandboxed: boolean }> {
  const { loadedConfig, home, projectDir } = context;
  const { tools } = loadedConfig.config;
  if (!tools.bash.enabled)
    return { finding: createSkipped("tools.sandbox", "commands are disabled", ""), isSandboxed: true };
  try {
    const selection = new Selection(loadedConfig, home);
    const deniedPaths = selection.deniedPaths();
    const rules = {
      allowPaths: selection.allowPaths(),
      deniedPaths,
      readOnlyPaths: selection.readOnlyPaths(TOOL_NAMES),
      protectedPaths: tools.protectedPaths,
    };
    const sandbox = new Sandbox({ ...rules, env: createChildEnvironment(tools.env), ...tools.bash });
    const { text, isWeak } = await sandbox.describe(projectDir);
    if (!isWeak) {
      const hiddenPaths = `hidden: ${deniedPaths.join(", ")}`;
      return { finding: createOk("tools.sandbox", text, hiddenPaths), isSandboxed: true };
    }
    // A list of hosts needs a sandbox too.
    const setting = typeof tools.bash.network === "object" ? "required" : tools.bash.sandbox;
    return { finding: describeWeakSandbox(text, setting), isSandboxed: setting === "required" };
  } catch (error) {
    const detail = toReason(error);
    const finding = createError("tools.sandbox", "the sandbox cannot be determined", detail, INSTALL_BUBBLEWRAP);
    return { finding, isSandboxed: false };
  }
}

function describeWeakSandbox(text: string, setting: "auto" | "required" | "off"): Finding {
  if (setting === "off")
    return createWarning(
      "tools.sandbox",
      text,
      'tools.bash.sandbox is "off"; a command can read the keys of gantry and of this user',
      'set tools.bash.sandbox to "auto" or "required"',
    );
  return setting === "required"
    ? createError("tools.sandbox", text, "the config requires a sandbox", INSTALL_BUBBLEWRAP)
    : createWarning("tools.sandbox", text, "a command can read every file of this user", INSTALL_BUBBLEWRAP);
}
