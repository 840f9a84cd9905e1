import { statSync } from "node:fs";
import { createError, createOk, createWarning, type DoctorCheck, type Finding } from "./finding.js";

/** Whether the config file can be used, and who can read it. */
export const configCheck: DoctorCheck = {
  group: "Configuration",
  run: ({ loadedConfig: { file, secrets }, configError }) => {
    const stats = statSync(file, { throwIfNoEntry: false });
    const findings: Finding[] = [configError ? describeConfigError(configError) : describeConfig(file, !!stats)];
    const mode = (stats?.mode ?? 0) & 0o777;
    if (process.platform !== "win32" && (mode & 0o077) !== 0 && secrets.size > 0)
      findings.push(
        createWarning(
          "config.mode",
          "other users can read the config file, which contains keys",
          `${file} has mode ${mode.toString(8)}`,
          `chmod 600 ${file}`,
        ),
      );
    return findings;
  },
};

function describeConfig(file: string, exists: boolean): Finding {
  return createOk("config.file", exists ? `${file} is valid` : `${file} does not exist; the defaults apply`);
}

function describeConfigError({ message }: Error): Finding {
  if (/expected the environment variable \S+ to be set/.test(message))
    return createError(
      "config.variable",
      "the config names an environment variable that is not set",
      message,
      "set the variable before gantry starts, or remove ${...} from this key",
    );
  if (/cannot be read \(/.test(message))
    return createError(
      "config.unreadable",
      "the config file cannot be read",
      message,
      "correct the path of --config, or the permissions of the file",
    );
  return createError(
    "config.invalid",
    "the config cannot be used; the other checks use the defaults",
    message,
    "correct the named key; docs/configuration-reference.md lists all keys with their values",
  );
}
