import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import { getTemporaryFolder } from "../serve/config.js";
import { createTestedAdapter, type TestedAdapter, type TestedAdapterInstance } from "../serve/trial.js";
import * as kit from "../testing/index.js";

/** Thrown by a check that needs a fixture. */
export class MissingFixtureError extends Error {}

/** Members of a fixture that a user's module exports. */
export type FixtureMembers = Readonly<Record<string, unknown>>;

/** Creates instances of an adapter in one temporary folder. */
export class AdapterBench<Kind extends AdapterKind> {
  readonly #adapter: TestedAdapter<Kind>;
  readonly #instances: TestedAdapterInstance<Kind>[] = [];
  #folder: string | undefined;

  constructor(adapter: TestedAdapter<Kind>) {
    this.#adapter = adapter;
  }

  /** Creates an instance. All instances share the folder, which `clean` removes. */
  async createAdapter(): Promise<AdapterKinds[Kind]> {
    const instance = await createTestedAdapter(this.#adapter, await this.getFolder());
    this.#instances.push(instance);
    return instance.adapter;
  }

  /** Returns the temporary folder. Creates the folder on the first call. */
  async getFolder(): Promise<string> {
    return (this.#folder ??= await mkdtemp(join(getTemporaryFolder(), "gantry-check-")));
  }

  /** Closes what was created with the instances, and removes the folder. */
  async clean(): Promise<void> {
    await Promise.all(this.#instances.splice(0).map((instance) => instance.close()));
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
    this.#folder = undefined;
  }
}

function throwMissingMember(member: string): () => never {
  return () => {
    throw new MissingFixtureError(`needs ${member} of a fixture (--fixture)`);
  };
}

type ChecksOf<Kind extends AdapterKind> = (bench: AdapterBench<Kind>, fixture: FixtureMembers) => kit.Check[];

/** Functions that create the checks of a kind. Members of the user's fixture override the defaults here. */
const KITS_BY_KIND: { readonly [Kind in AdapterKind]?: ChecksOf<Kind> } = {
  "session-driver": (bench, fixture) => {
    const openDriver = async () => {
      const driver = await bench.createAdapter();
      await driver.open();
      return driver;
    };
    return kit.sessionDriverChecks({
      create: openDriver,
      second: openDriver,
      reopen: openDriver,
      clean: () => bench.clean(),
      ...fixture,
    });
  },
  transport: (bench, fixture) =>
    kit.transportChecks({
      create: () => bench.createAdapter(),
      createFailing: undefined,
      connect: throwMissingMember("connect"),
      onDisconnect: "cancel",
      clean: () => bench.clean(),
      ...fixture,
    }),
  "model-provider": (bench, fixture) =>
    kit.modelProviderChecks({
      create: () => bench.createAdapter(),
      text: throwMissingMember("text"),
      toolCall: undefined,
      stall: undefined,
      fault: undefined,
      clean: () => bench.clean(),
      ...fixture,
    }),
  tool: (bench, fixture) =>
    kit.toolChecks({
      create: async () => {
        const tool = await bench.createAdapter();
        const projectDir = join(await bench.getFolder(), "project");
        await mkdir(projectDir, { recursive: true });
        const testbed = { tool, projectDir, slow: undefined };
        return Object.defineProperty(testbed, "input", { get: throwMissingMember("create") }) as kit.ToolTestbed;
      },
      clean: () => bench.clean(),
      ...fixture,
    }),
  "compaction-strategy": (bench, fixture) =>
    kit.compactionStrategyChecks({ create: () => bench.createAdapter(), ...fixture }),
  hooks: (bench, fixture) =>
    kit.hooksChecks({ create: () => bench.createAdapter(), clean: () => bench.clean(), ...fixture }),
};

/** Optional members of the adapter interfaces, by kind. The report names the members that are missing. */
const OPTIONAL_MEMBERS: { readonly [Kind in AdapterKind]?: readonly (keyof AdapterKinds[Kind] & string)[] } = {
  "session-driver": ["synced"],
  "model-provider": ["fallbackModels", "prepare", "prices", "supportsDeferredStart"],
  tool: ["preview", "models", "replaces", "close"],
  hooks: ["beforeToolCall", "afterToolCall", "beforeModelCall", "listeners", "close"],
};
const OPTIONAL_FIXTURE_MEMBERS: Partial<Readonly<Record<AdapterKind, readonly string[]>>> = {
  "session-driver": ["hold"],
  transport: ["createFailing"],
  "model-provider": ["toolCall", "stall", "fault"],
};

/** Returns the checks of an adapter, or undefined for a kind without checks. */
export function createChecks<Kind extends AdapterKind>(
  kind: Kind,
  bench: AdapterBench<Kind>,
  fixture: FixtureMembers,
): kit.Check[] | undefined {
  return KITS_BY_KIND[kind]?.(bench, fixture);
}

/** Returns the optional members that the adapter or the fixture does not implement. */
export function findMissingMembers<Kind extends AdapterKind>(
  kind: Kind,
  adapter: AdapterKinds[Kind],
  fixture: FixtureMembers,
): string[] {
  const missingMembers = (OPTIONAL_MEMBERS[kind] ?? []).filter((name) => adapter[name] === undefined);
  const missingFixtureMembers = (OPTIONAL_FIXTURE_MEMBERS[kind] ?? []).filter((name) => fixture[name] === undefined);
  return [...missingMembers, ...missingFixtureMembers.map((name) => `${name} (fixture)`)];
}
