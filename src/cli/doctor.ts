import { join, resolve } from "node:path";
import { abortable, createDeadline } from "../base/abort.js";
import { VERSION } from "../base/version.js";
import { ConfigError } from "../ports/errors.js";
import { getHomeFolder, loadConfig } from "../serve/config.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import type { doctor } from "./descriptions/doctor.js";
import { refuseArguments } from "./refuse-arguments.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { configCheck } from "./doctor/config-check.js";
import { exposureCheck } from "./doctor/exposure-check.js";
import { createError, toReason, type DoctorCheck, type DoctorContext, type FindingGroup } from "./doctor/finding.js";
import { homeCheck } from "./doctor/home-check.js";
import { machineCheck } from "./doctor/machine-check.js";
import { mcpCheck } from "./doctor/mcp-check.js";
import { pluginCheck } from "./doctor/plugin-check.js";
import { projectCheck } from "./doctor/project-check.js";
import { providerCheck } from "./doctor/provider-check.js";
import { formatReport } from "./doctor/report.js";
import { storeCheck } from "./doctor/store-check.js";
import { toolsCheck } from "./doctor/tools-check.js";

/** Time limit of a group of checks. */
const CHECK_TIMEOUT_MS = 12_000;

const CHECKS: readonly DoctorCheck[] = [
  ...[configCheck, machineCheck, homeCheck, projectCheck, exposureCheck, toolsCheck, storeCheck, providerCheck],
  ...[mcpCheck, pluginCheck],
];

/** `gantry doctor`: checks the set-up without a change to it. Exit code 1 if a check finds an error. */
export const run: CommandHandler<typeof doctor.flags> = async ({ args, flags, output, handleInterrupts }) => {
  refuseArguments(args);
  if (flags.json) output.redirectConsoleToStderr();
  const interruptSignal = handleInterrupts();
  const context = await createContext(flags, interruptSignal);
  const groups = await Promise.all(CHECKS.map((check) => runCheck(check, context)));
  if (interruptSignal.aborted) return SIGNAL_EXIT_CODES[String(interruptSignal.reason)] ?? 1;
  const findings = groups.flatMap(({ findings: groupFindings }) => groupFindings);
  await output.write(
    flags.json
      ? `${JSON.stringify({ version: VERSION, node: process.version, findings }, null, 2)}\n`
      : formatReport(groups),
  );
  return findings.some(({ status }) => status === "error") ? 1 : 0;
};

/** Loads the config. A config that cannot be used is a finding, and the other checks read the defaults. */
async function createContext(
  flags: DoctorContext["flags"] & { json?: boolean | undefined },
  signal: AbortSignal,
): Promise<DoctorContext> {
  const projectDir = resolve(".");
  const home = getHomeFolder();
  try {
    const { loadedConfig } = await loadConfigWithFlags(flags);
    return { loadedConfig, configError: undefined, flags, home, projectDir, signal };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const defaults = await loadConfig({ home: join(home, "no-config") });
    const file = flags.config === undefined ? join(home, "config.json") : resolve(flags.config);
    const loadedConfig = { ...defaults, file, folder: resolve(file, "..") };
    return { loadedConfig, configError: error, flags, home, projectDir, signal };
  }
}

/** Never rejects: a check that fails or hangs is an error of its group. */
async function runCheck({ group, run: runGroup }: DoctorCheck, context: DoctorContext): Promise<FindingGroup> {
  const deadline = createDeadline(CHECK_TIMEOUT_MS, context.signal);
  try {
    const work = (async () => runGroup({ ...context, signal: deadline.signal }))();
    return { group, findings: await abortable(work, deadline.signal) };
  } catch (error) {
    const id = `${group.split(" ")[0]!.toLowerCase()}.check`;
    const reason = context.loadedConfig.redactMessage(toReason(error));
    const title = deadline.hasExpired
      ? `the check did not end within ${CHECK_TIMEOUT_MS / 1000} s`
      : "the check could not be completed";
    const remedy =
      error instanceof ConfigError
        ? "correct the named key of the config"
        : "correct the reason, then repeat the check";
    return { group, findings: [createError(id, title, deadline.hasExpired ? "" : reason, remedy)] };
  } finally {
    deadline.clear();
  }
}
