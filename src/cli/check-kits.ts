import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import { temporaryFolder } from "../serve/config.js";
import { tryAdapter, type TriedAdapter, type TriedPart } from "../serve/trial.js";
import * as kit from "../testing/index.js";

/** Thrown by a check that needs a fixture. */
export class NeedsFixture extends Error {}

/** Members of a fixture that a user's module exports. */
export type FixtureMembers = Readonly<Record<string, unknown>>;

/** Creates parts of an adapter in one temporary folder. */
export class AdapterBench<Kind extends AdapterKind> {
  readonly #adapter: TriedAdapter<Kind>;
  readonly #parts: TriedPart<Kind>[] = [];
  #folder: string | undefined;

  constructor(adapter: TriedAdapter<Kind>) {
    this.#adapter = adapter;
  }

  /** Creates a part. All parts share the folder, which `clean` removes. */
  async make(): Promise<AdapterKinds[Kind]> {
    const tried = await tryAdapter(this.#adapter, await this.folder());
    this.#parts.push(tried);
    return tried.part;
  }

  async folder(): Promise<string> {
    return (this.#folder ??= await mkdtemp(join(temporaryFolder(), "gantry-check-")));
  }

  async clean(): Promise<void> {
    await Promise.all(this.#parts.splice(0).map((part) => part.close()));
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
    this.#folder = undefined;
  }
}

function needs(member: string): () => never {
  return () => {
    throw new NeedsFixture(`needs ${member} of a fixture (--fixture)`);
  };
}

type ChecksOf<Kind extends AdapterKind> = (bench: AdapterBench<Kind>, fixture: FixtureMembers) => kit.Check[];

/** The checks of each kind that has some. Members of the fixture override those of the command. */
const KITS: { readonly [Kind in AdapterKind]?: ChecksOf<Kind> } = {
  "session-driver": (bench, fixture) => {
    const opened = async () => {
      const driver = await bench.make();
      await driver.open();
      return driver;
    };
    return kit.sessionDriverChecks({
      create: opened,
      second: opened,
      reopen: opened,
      clean: () => bench.clean(),
      ...fixture,
    });
  },
  transport: (bench, fixture) =>
    kit.transportChecks({
      create: () => bench.make(),
      createFailing: undefined,
      connect: needs("connect"),
      onDisconnect: "cancel",
      clean: () => bench.clean(),
      ...fixture,
    }),
  "model-provider": (bench, fixture) =>
    kit.modelProviderChecks({
      create: () => bench.make(),
      text: needs("text"),
      toolCall: undefined,
      stall: undefined,
      fault: undefined,
      clean: () => bench.clean(),
      ...fixture,
    }),
  tool: (bench, fixture) =>
    kit.toolChecks({
      create: async () => {
        const tool = await bench.make();
        const projectDir = join(await bench.folder(), "project");
        await mkdir(projectDir, { recursive: true });
        const ground = { tool, projectDir, slow: undefined };
        return Object.defineProperty(ground, "input", { get: needs("create") }) as kit.ToolTestbed;
      },
      clean: () => bench.clean(),
      ...fixture,
    }),
  "compaction-strategy": (bench, fixture) => kit.compactionStrategyChecks({ create: () => bench.make(), ...fixture }),
  hooks: (bench, fixture) => kit.hooksChecks({ create: () => bench.make(), clean: () => bench.clean(), ...fixture }),
};

/** Optional members of the ports. */
const OPTIONAL: { readonly [Kind in AdapterKind]?: readonly (keyof AdapterKinds[Kind] & string)[] } = {
  "session-driver": ["synced"],
  "model-provider": ["fallbackModels", "prepare", "prices", "supportsDeferredStart"],
  tool: ["preview", "models", "replaces", "close"],
  hooks: ["beforeToolCall", "afterToolCall", "beforeModelCall", "listeners", "close"],
};
const OPTIONAL_OF_FIXTURE: Partial<Readonly<Record<AdapterKind, readonly string[]>>> = {
  "session-driver": ["hold"],
  transport: ["createFailing"],
  "model-provider": ["toolCall", "stall", "fault"],
};

/** Returns the checks of an adapter, or undefined for a kind without checks. */
export function checksOf<Kind extends AdapterKind>(
  kind: Kind,
  bench: AdapterBench<Kind>,
  fixture: FixtureMembers,
): kit.Check[] | undefined {
  return KITS[kind]?.(bench, fixture);
}

/** Optional members that neither the part nor the fixture implements. */
export function notDeclared<Kind extends AdapterKind>(
  kind: Kind,
  part: AdapterKinds[Kind],
  fixture: FixtureMembers,
): string[] {
  const missingMembers = (OPTIONAL[kind] ?? []).filter((name) => part[name] === undefined);
  const ofFixture = (OPTIONAL_OF_FIXTURE[kind] ?? []).filter((name) => fixture[name] === undefined);
  return [...missingMembers, ...ofFixture.map((name) => `${name} (fixture)`)];
}
