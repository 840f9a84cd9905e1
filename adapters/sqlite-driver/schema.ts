import { StoreError } from "gantry";

/** "gant": tells our files from those of other programs. */
export const APPLICATION_ID = 0x67616e74;

/** Version of the files that this code reads and writes: how many migrations there are. */
export const VERSION = 3;

/** Refuse a file of a newer gantry. */
export function checkVersion(version: number, path: string): void {
  if (version <= VERSION) return;
  throw new StoreError(
    `session store ${path}: written by a newer gantry (version ${version}, this one knows ${VERSION}); ` +
      "it was left as it is: update gantry, or choose another session.path",
  );
}
