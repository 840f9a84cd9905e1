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
export class Bench<Kind extends AdapterKind> {
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

type ChecksOf<Kind extends AdapterKind> = (bench: Bench<Kind>, given: FixtureMembers) => kit.Check[];

/** The checks of each kind that has some. Members of the fixture override those of the command. */
const KITS: { readonly [Kind in AdapterKind]?: ChecksOf<Kind> } = {
  "session-driver": (bench, given) => {
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
      ...given,
    });
  },
  transport: (bench, given) =>
    kit.transportChecks({
      create: () => bench.make(),
      unable: undefined,
      connect: needs("connect"),
      onLeave: "cancel",
      clean: () => bench.clean(),
      ...given,
    }),
  "model-provider": (bench, given) =>
    kit.modelProviderChecks({
      create: () => bench.make(),
      text: needs("text"),
      toolCall: undefined,
      stall: undefined,
      fault: undefined,
      clean: () => bench.clean(),
      ...given,
    }),
  tool: (bench, given) =>
    kit.toolChecks({
      create: async () => {
        const tool = await bench.make();
        const projectDir = join(await bench.folder(), "project");
        await mkdir(projectDir, { recursive: true });
        const ground = { tool, projectDir, slow: undefined };
        return Object.defineProperty(ground, "input", { get: needs("create") }) as kit.ToolTestbed;
      },
      clean: () => bench.clean(),
      ...given,
    }),
  "compaction-strategy": (bench, given) => kit.compactionStrategyChecks({ create: () => bench.make(), ...given }),
  hooks: (bench, given) => kit.hooksChecks({ create: () => bench.make(), clean: () => bench.clean(), ...given }),
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
  transport: ["unable"],
  "model-provider": ["toolCall", "stall", "fault"],
};

/** Returns the checks of an adapter, or undefined for a kind without checks. */
export function checksOf<Kind extends AdapterKind>(
  kind: Kind,
  bench: Bench<Kind>,
  given: FixtureMembers,
): kit.Check[] | undefined {
  return KITS[kind]?.(bench, given);
}

/** Optional members that neither the part nor the fixture implements. */
export function notDeclared<Kind extends AdapterKind>(
  kind: Kind,
  part: AdapterKinds[Kind],
  given: FixtureMembers,
): string[] {
  const own = (OPTIONAL[kind] ?? []).filter((name) => part[name] === undefined);
  const ofFixture = (OPTIONAL_OF_FIXTURE[kind] ?? []).filter((name) => given[name] === undefined);
  return [...own, ...ofFixture.map((name) => `${name} (fixture)`)];
}
