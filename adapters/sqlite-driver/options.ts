import { option, sharedOptions } from "gantry/plugin";

/** Its options under `session`. */
export const sqliteOptions = option.section({
  path: sharedOptions.path,
  durability: sharedOptions.durability,
});

type Read = option.Value<typeof sqliteOptions>;

export interface SqliteOptions extends Pick<Read, "path">, Partial<Pick<Read, "durability">> {
  /** Most pages (4 KiB each) that the file may grow to by this driver's hand. Default: SQLite's own. */
  maxPages?: number | undefined;
}
