import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { attempt } from "../base/attempt.js";
import { abortable, settlesWithin } from "../base/abort.js";
import { isRecord, parseJson } from "../base/json.js";
import { defineAdapter } from "../plugin/adapter.js";
import { shown } from "../plugin/read-options.js";
import { isPath } from "../serve/module-name.js";
import { isDescriptor, KINDS } from "../serve/plugins.js";
import { reasonOf } from "../serve/selected-adapters.js";
import { descriptorFault, importWithGantry } from "../serve/third-party.js";
import { tryStart, type TriedAdapter } from "../serve/trial.js";
import { withTimeout, type Check } from "../testing/check.js";
import type { check } from "./about/check.js";
import { AdapterBench, checksOf, NeedsFixture, notDeclared, type FixtureMembers } from "./check-kits.js";
import { reportText, type AdapterReport, type CheckResult } from "./check-report.js";
import type { CommandHandler, CommandContext } from "./command.js";
import { SIGNAL_EXIT_CODES } from "./exit-reason.js";
import { failureLine } from "./failure.js";
import { UsageError } from "./usage-error.js";

const TIMEOUT_SECONDS = 10;
/** After this number of hung checks, the remaining ones are skipped. */
const MAX_HUNG = 3;

/** Limits that all checks of one command share. */
interface Limits {
  /** Timeout of a call of the adapter, in ms. A check has twice the time. */
  readonly timeoutMs: number;
  readonly interrupted: AbortSignal;
}

/** `gantry check MODULE`: runs the conformance checks of each adapter that the module exports. */
export const run: CommandHandler<typeof check.flags> = async (context) => {
  const interrupted = context.interrupted();
  try {
    return await checkModule(context, interrupted);
  } catch (error) {
    if (interrupted.aborted) return SIGNAL_EXIT_CODES[String(interrupted.reason)] ?? 1;
    if (!(error instanceof UsageError)) throw error;
    context.output.report(failureLine(error.message));
    return 2;
  }
};

async function checkModule(
  { args, flags, output }: CommandContext<typeof check.flags>,
  interrupted: AbortSignal,
): Promise<number> {
  const [module, ...extraArgs] = args;
  if (module === undefined || extraArgs.length > 0)
    throw new UsageError(`expected one MODULE, got ${args.length} (see gantry check --help)`);
  if (flags.json) output.keepStdoutClean();
  const limits = { timeoutMs: (flags.timeout ?? TIMEOUT_SECONDS) * 1000, interrupted };
  const options = flags.options === undefined ? {} : await readOptions(flags.options);
  const adapters = findAdapters(module, await load(module, limits), options);
  const fixture = flags.fixture === undefined ? {} : await loadFixture(flags.fixture, limits);
  const reports: AdapterReport[] = [];
  for (const adapter of adapters) {
    const report = await checkAdapter(adapter, fixture, limits);
    reports.push(report);
    if (!flags.json) await output.write(`${reports.length > 1 ? "\n" : ""}${reportText(report)}`);
  }
  if (flags.json) await output.write(`${JSON.stringify({ module, adapters: reports }, null, 2)}\n`);
  const isAccepted = ({ status }: CheckResult) => status === "passed" || status === "not_checked";
  return reports.every(({ checks }) => checks.every(isAccepted)) ? 0 : 1;
}

/** Parses the options, given as JSON or as a file. Rejects with `UsageError`. */
async function readOptions(optionsArg: string): Promise<Record<string, unknown>> {
  let options: unknown;
  try {
    options = parseJson(
      optionsArg.trimStart().startsWith("{") ? optionsArg : await readFile(resolve(optionsArg), "utf8"),
    );
  } catch (error) {
    throw new UsageError(`--options: expected JSON or a JSON file: ${reasonOf(error)}`);
  }
  if (!isRecord(options)) throw new UsageError(`--options: expected an object, got ${shown(options)}`);
  return options;
}

/**
 * Imports a module by file or package name. Rejects with `UsageError` if it does not exist, otherwise with the reason
 * why loading failed.
 */
async function load(name: string, { timeoutMs, interrupted }: Limits): Promise<Readonly<Record<string, unknown>>> {
  const url = await urlOf(name);
  if (url === undefined) throw new UsageError(`${name}: module not found: expected a file or package`);
  try {
    return await abortable(withTimeout(importWithGantry(url), "import", timeoutMs), interrupted);
  } catch (error) {
    throw new Error(`${name} could not be loaded: ${reasonOf(error)}`, { cause: error });
  }
}

async function urlOf(name: string): Promise<string | undefined> {
  if (existsSync(resolve(name))) return pathToFileURL(resolve(name)).href;
  if (isPath(name)) return undefined;
  const { resolve: find } = await import("import-meta-resolve");
  return attempt(() => find(name, pathToFileURL(resolve("package.json")).href), undefined);
}

async function loadFixture(file: string, limits: Limits): Promise<FixtureMembers> {
  const { fixture } = await load(file, limits);
  if (!isRecord(fixture))
    throw new UsageError(`--fixture ${file}: expected the export fixture, an object, got ${shown(fixture)}`);
  return fixture;
}

/** The adapters that a module exports, without duplicates. Throws `UsageError` if there are none. */
function findAdapters(
  module: string,
  exports: Readonly<Record<string, unknown>>,
  options: Readonly<Record<string, unknown>>,
): TriedAdapter[] {
  const descriptors = new Map<unknown, TriedAdapter>();
  for (const [name, value] of Object.entries(exports)) {
    if (!isDescriptor(value) || descriptors.has(value)) continue;
    const fault = descriptorFault(value, KINDS);
    const exportName = name === "default" ? "default export" : `export ${name}`;
    if (fault !== undefined) throw new Error(`${module}: ${exportName} is not a gantry adapter: ${fault}`);
    descriptors.set(value, { descriptor: defineAdapter(value), module, exportName, options });
  }
  if (descriptors.size > 0) return [...descriptors.values()];
  const exportTexts = Object.entries(exports).map(([name, value]) => `${name} (${shown(value)})`);
  throw new UsageError(
    `${module} exports no adapter: expected a default or named export made by defineAdapter, got ${exportTexts.join(", ") || "no export"}`,
  );
}

async function checkAdapter(adapter: TriedAdapter, fixture: FixtureMembers, limits: Limits): Promise<AdapterReport> {
  const { descriptor, exportName } = adapter;
  const { kind, name } = descriptor;
  const bench = new AdapterBench(adapter);
  const clean = async () =>
    void (await settlesWithin(
      bench.clean().catch(() => undefined),
      limits.timeoutMs,
    ));
  let missing: string[] = [];
  const start: Check = {
    name: "adapter: can be created, opened and closed",
    run: async () => {
      const part = await bench.make();
      missing = notDeclared(kind, part, fixture);
      await tryStart(adapter, part, limits.timeoutMs);
      await bench.clean();
    },
  };
  try {
    let checks = await runChecks([start], clean, limits);
    const kit = checksOf(kind, bench, { timeoutMs: limits.timeoutMs, ...fixture }) ?? [];
    if (checks.every(({ status }) => status === "passed"))
      checks = [...checks, ...(await runChecks(kit, clean, limits))];
    return { exportName, kind, name, checks, notDeclared: missing };
  } finally {
    await clean();
  }
}

async function runChecks(checks: readonly Check[], clean: () => Promise<void>, limits: Limits): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  let hung = 0;
  for (const { name, group = name.split(":")[0]!, run } of checks) {
    if (hung === MAX_HUNG) {
      results.push({ group, name, status: "not_run", message: `${MAX_HUNG} earlier checks hung` });
      continue;
    }
    const startedAt = performance.now();
    const error = await runCheck(run, limits);
    if (error === undefined) {
      results.push({ group, name, status: "passed" });
      continue;
    }
    if (performance.now() - startedAt >= limits.timeoutMs) hung++;
    results.push({
      group,
      name,
      status: error instanceof NeedsFixture ? "not_checked" : "failed",
      message: error.message,
    });
    // A hung check has not cleaned up.
    await clean();
  }
  return results;
}

/** Returns the error of a failed check, also from an unhandled rejection. Rejects if the command is interrupted. */
async function runCheck(run: Check["run"], { timeoutMs, interrupted }: Limits): Promise<Error | undefined> {
  let fail: (error: unknown) => void = () => undefined;
  const stray = new Promise<never>((_resolve, reject) => (fail = reject));
  const events = ["unhandledRejection", "uncaughtException"] as const;
  for (const event of events) process.on(event, fail);
  // Starts before the check, which looks for timers that it left open.
  const timer = setTimeout(() => fail(new Error(`the check did not end within ${2 * timeoutMs} ms`)), 2 * timeoutMs);
  try {
    await abortable(Promise.race([run(), stray]), interrupted);
    return undefined;
  } catch (error) {
    interrupted.throwIfAborted();
    return error instanceof Error ? error : new Error(`${String(error)} was thrown`);
  } finally {
    clearTimeout(timer);
    for (const event of events) process.off(event, fail);
  }
}
