import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { attempt } from "../base/attempt.js";
import { abortable, settlesWithin } from "../base/abort.js";
import { isRecord, parseJson } from "../base/json.js";
import { defineAdapter } from "../plugin/adapter.js";
import { formatValue } from "../plugin/read-options.js";
import { isModulePath } from "../serve/module-name.js";
import { isDescriptor, ADAPTER_KINDS } from "../serve/plugins.js";
import { reasonOf } from "../serve/error-reason.js";
import { findDescriptorFault, importWithGantry } from "../serve/third-party.js";
import { tryStart, type TestedAdapter } from "../serve/trial.js";
import { withTimeout, type Check } from "../testing/check.js";
import type { check } from "./descriptions/check.js";
import {
  AdapterBench,
  createChecks,
  MissingFixtureError,
  findMissingMembers,
  type FixtureMembers,
} from "./check-kits.js";
import { formatReport, type AdapterReport, type CheckResult } from "./check-report.js";
import type { CommandHandler, CommandContext } from "./command.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { formatFailureLine } from "./failure-message.js";
import { UnhandledErrors } from "./unhandled-errors.js";
import { UsageError } from "./usage-error.js";

const USAGE_EXIT_CODE = 2;
const DEFAULT_TIMEOUT_SECONDS = 10;
/** After this number of hung checks, the remaining checks are skipped. */
const MAX_HUNG_CHECKS = 3;

/** Limits that all checks of one command share. */
interface CheckLimits {
  /** Timeout of a call of the adapter, in ms. The timeout of a check is twice as long. */
  readonly timeoutMs: number;
  readonly interruptSignal: AbortSignal;
}

/** `gantry check MODULE`: runs the conformance checks of each adapter that the module exports. */
export const run: CommandHandler<typeof check.flags> = async (context) => {
  const interruptSignal = context.handleInterrupts();
  try {
    return await checkModule(context, interruptSignal);
  } catch (error) {
    if (interruptSignal.aborted) return SIGNAL_EXIT_CODES[String(interruptSignal.reason)] ?? 1;
    if (!(error instanceof UsageError)) throw error;
    context.output.report(formatFailureLine(error.message));
    return USAGE_EXIT_CODE;
  }
};

async function checkModule(
  { args, flags, output }: CommandContext<typeof check.flags>,
  interruptSignal: AbortSignal,
): Promise<number> {
  const [module, ...extraArgs] = args;
  if (module === undefined || extraArgs.length > 0)
    throw new UsageError(`expected one MODULE, got ${args.length} (see gantry check --help)`);
  if (flags.json) output.redirectConsoleToStderr();
  const limits = { timeoutMs: (flags.timeout ?? DEFAULT_TIMEOUT_SECONDS) * 1000, interruptSignal };
  const options = flags.options === undefined ? {} : await readOptions(flags.options);
  const adapters = findAdapters(module, await loadModule(module, limits), options);
  const fixture = flags.fixture === undefined ? {} : await loadFixture(flags.fixture, limits);
  const reports: AdapterReport[] = [];
  // Work that a check has not ended may fail after the check.
  const unhandledErrors = new UnhandledErrors();
  try {
    for (const adapter of adapters) {
      const report = await checkAdapter(adapter, fixture, limits, unhandledErrors);
      reports.push(report);
      if (!flags.json) await output.write(`${reports.length > 1 ? "\n" : ""}${formatReport(report)}`);
    }
  } finally {
    unhandledErrors.close();
  }
  if (flags.json) await output.write(`${JSON.stringify({ module, adapters: reports }, null, 2)}\n`);
  const isAccepted = ({ status }: CheckResult) => status === "passed" || status === "not_checked";
  return reports.every(({ checks }) => checks.every(isAccepted)) ? 0 : 1;
}

/** Parses `--options`: JSON, or the path of a JSON file. Rejects with `UsageError`. */
async function readOptions(optionsArg: string): Promise<Record<string, unknown>> {
  let options: unknown;
  try {
    options = parseJson(
      optionsArg.trimStart().startsWith("{") ? optionsArg : await readFile(resolve(optionsArg), "utf8"),
    );
  } catch (error) {
    throw new UsageError(`--options: expected JSON or a JSON file: ${reasonOf(error)}`);
  }
  if (!isRecord(options)) throw new UsageError(`--options: expected an object, got ${formatValue(options)}`);
  return options;
}

/**
 * Imports a module by file or package name. Rejects with `UsageError` if it does not exist, otherwise with the reason
 * why loading failed.
 */
async function loadModule(
  name: string,
  { timeoutMs, interruptSignal }: CheckLimits,
): Promise<Readonly<Record<string, unknown>>> {
  const url = await findModuleUrl(name);
  if (url === undefined) throw new UsageError(`${name}: module not found: expected a file or package`);
  try {
    return await abortable(withTimeout(importWithGantry(url), "import", timeoutMs), interruptSignal);
  } catch (error) {
    throw new Error(`${name} could not be loaded: ${reasonOf(error)}`, { cause: error });
  }
}

async function findModuleUrl(name: string): Promise<string | undefined> {
  if (existsSync(resolve(name))) return pathToFileURL(resolve(name)).href;
  if (isModulePath(name)) return undefined;
  const { resolve: resolveSpecifier } = await import("import-meta-resolve");
  return attempt(() => resolveSpecifier(name, pathToFileURL(resolve("package.json")).href), undefined);
}

/** Loads the export `fixture` of a module. Rejects with `UsageError` if the export is not an object. */
async function loadFixture(file: string, limits: CheckLimits): Promise<FixtureMembers> {
  const { fixture } = await loadModule(file, limits);
  if (!isRecord(fixture))
    throw new UsageError(`--fixture ${file}: expected the export fixture, an object, got ${formatValue(fixture)}`);
  return fixture;
}

/** Returns the adapters that a module exports, without duplicates. Throws `UsageError` if there are none. */
function findAdapters(
  module: string,
  exports: Readonly<Record<string, unknown>>,
  options: Readonly<Record<string, unknown>>,
): TestedAdapter[] {
  const adaptersByDescriptor = new Map<unknown, TestedAdapter>();
  for (const [name, value] of Object.entries(exports)) {
    if (!isDescriptor(value) || adaptersByDescriptor.has(value)) continue;
    const fault = findDescriptorFault(value, ADAPTER_KINDS);
    const exportName = name === "default" ? "default export" : `export ${name}`;
    if (fault !== undefined) throw new Error(`${module}: ${exportName} is not a gantry adapter: ${fault}`);
    adaptersByDescriptor.set(value, { descriptor: defineAdapter(value), module, exportName, options });
  }
  if (adaptersByDescriptor.size > 0) return [...adaptersByDescriptor.values()];
  const exportTexts = Object.entries(exports).map(([name, value]) => `${name} (${formatValue(value)})`);
  throw new UsageError(
    `${module} exports no adapter: expected a default or named export made by defineAdapter, got ${exportTexts.join(", ") || "no export"}`,
  );
}

async function checkAdapter(
  adapter: TestedAdapter,
  fixture: FixtureMembers,
  limits: CheckLimits,
  unhandledErrors: UnhandledErrors,
): Promise<AdapterReport> {
  const { descriptor, exportName } = adapter;
  const { kind, name } = descriptor;
  const bench = new AdapterBench(adapter);
  const clean = async () =>
    void (await settlesWithin(
      bench.clean().catch(() => undefined),
      limits.timeoutMs,
    ));
  let missingMembers: string[] = [];
  const startCheck: Check = {
    name: "adapter: can be created, opened and closed",
    run: async () => {
      const adapterInstance = await bench.createAdapter();
      missingMembers = findMissingMembers(kind, adapterInstance, fixture);
      await tryStart(adapter, adapterInstance, limits.timeoutMs);
      await bench.clean();
    },
  };
  try {
    let checks = await runChecks([startCheck], clean, limits, unhandledErrors);
    const kitChecks = createChecks(kind, bench, { timeoutMs: limits.timeoutMs, ...fixture }) ?? [];
    if (checks.every(({ status }) => status === "passed"))
      checks = [...checks, ...(await runChecks(kitChecks, clean, limits, unhandledErrors))];
    await clean();
    const lateFailureCheckName = "adapter: leaves no work that fails after a check";
    for (const { message } of unhandledErrors.unclaimedErrors.splice(0))
      checks.push({ group: "adapter", name: lateFailureCheckName, status: "failed", message });
    return { exportName, kind, name, checks, notDeclared: missingMembers };
  } finally {
    await clean();
  }
}

async function runChecks(
  checks: readonly Check[],
  clean: () => Promise<void>,
  limits: CheckLimits,
  unhandledErrors: UnhandledErrors,
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  let hungCheckCount = 0;
  for (const { name, group = name.split(":")[0]!, run } of checks) {
    if (hungCheckCount === MAX_HUNG_CHECKS) {
      results.push({ group, name, status: "not_run", message: `${MAX_HUNG_CHECKS} earlier checks hung` });
      continue;
    }
    const startedAtMs = performance.now();
    const error = await runCheck(run, limits, unhandledErrors);
    if (error === undefined) {
      results.push({ group, name, status: "passed" });
      continue;
    }
    if (performance.now() - startedAtMs >= limits.timeoutMs) hungCheckCount++;
    results.push({
      group,
      name,
      status: error instanceof MissingFixtureError ? "not_checked" : "failed",
      message: error.message,
    });
    // The kit of a hung check has not cleaned up.
    await clean();
  }
  return results;
}

/** Returns the error of a failed check, also from an unhandled rejection. Rejects if the command is interrupted. */
async function runCheck(
  run: Check["run"],
  { timeoutMs, interruptSignal }: CheckLimits,
  unhandledErrors: UnhandledErrors,
): Promise<Error | undefined> {
  let timer: NodeJS.Timeout | undefined;
  // Start this timer before the check, because the check reports timers that it left open.
  const timeout = new Promise<never>((_resolve, reject) => {
    const error = new Error(`the check did not end within ${2 * timeoutMs} ms`);
    timer = setTimeout(() => reject(error), 2 * timeoutMs);
  });
  try {
    await unhandledErrors.claimNext((nextError) =>
      abortable(Promise.race([run(), nextError, timeout]), interruptSignal),
    );
    return undefined;
  } catch (error) {
    interruptSignal.throwIfAborted();
    return error instanceof Error ? error : new Error(`${String(error)} was thrown`);
  } finally {
    clearTimeout(timer);
  }
}
