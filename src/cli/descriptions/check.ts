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
  details: `MODULE is a file or a package. Its default export and its named exports are checked. Relative paths in options start in a
temporary folder, which is removed. A transport needs a fixture with connect (a client), a provider one with text and toolCall
(what its model answers), a tool one with create (its arguments); without it, the checks that need them are left out.

Exit codes
  0    all checks passed
  1    a check failed
  2    the command line is wrong, or MODULE exports no adapter`,
} as const satisfies CommandDescription;
