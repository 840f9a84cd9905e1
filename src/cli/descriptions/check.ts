import type { CommandDescription } from "../command-description.js";
import { FILE_VALUE, JSON_FLAG } from "./flags.js";

export const check = {
  name: "check",
  summary: "run the conformance checks of an adapter",
  usage: ["MODULE [options]"],
  flags: {
    options: { ...FILE_VALUE, value: "JSON|FILE", description: "the adapter's options, as in the config" },
    fixture: {
      ...FILE_VALUE,
      description: "module that exports fixture: the fixture of the checks, or a part of it",
    },
    timeout: { type: "number", value: "SECONDS", description: "timeout of a call of the adapter (default 10)" },
    ...JSON_FLAG,
  },
  usageExitCode: 2,
} as const satisfies CommandDescription;
