import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { isInside } from "../files/path-guard.js";

/**
 * Programs of the machine, none of which is in a folder that whoever wrote the project, or the model, has put files into: what
 * runs beside a change that was asked for is nobody's way to run something else.
 */
export class OuterPrograms {
  /** Folders, in the order in which they are looked at; as `PATH` is written. */
  readonly path: string;
  readonly #folders: readonly string[];
  readonly #inner: readonly string[];

  private constructor(folders: readonly string[], inner: readonly string[]) {
    this.path = folders.join(":");
    this.#folders = folders;
    this.#inner = inner;
  }

  /** `path`: a `PATH`. `inner`: folders of which nothing is to run, with the repositories that they are in. */
  static async of(path: string, inner: readonly string[]): Promise<OuterPrograms> {
    const all = new Set<string>();
    for (const folder of inner) {
      const real = await realpath(folder).catch(() => folder);
      for (const one of [folder, real, await repositoryOf(real)]) if (one !== undefined) all.add(resolve(one));
    }
    const roots = [...all];
    const folders: string[] = [];
    for (const folder of path.split(":"))
      if (isAbsolute(folder) && (await isOuter(folder, roots))) folders.push(folder);
    return new OuterPrograms(folders, roots);
  }

  /** Where a program is; undefined where there is none. */
  async find(name: string): Promise<string | undefined> {
    for (const folder of this.#folders) {
      const file = join(folder, name);
      const isProgram = await access(file, constants.X_OK).then(
        async () => (await stat(file)).isFile(),
        () => false,
      );
      if (isProgram) return (await isOuter(file, this.#inner)) ? file : undefined;
    }
    return undefined;
  }
}

async function isOuter(path: string, inner: readonly string[]): Promise<boolean> {
  const real = await realpath(path).catch(() => undefined);
  return real !== undefined && !inner.some((folder) => isInside(real, folder) || isInside(resolve(path), folder));
}

/** The top of the repository that a folder is in. */
async function repositoryOf(folder: string): Promise<string | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    const found = await stat(join(at, ".git")).then(
      () => true,
      () => false,
    );
    if (found) return at;
    if (dirname(at) === at) return undefined;
  }
}
