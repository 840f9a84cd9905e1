import { option, sharedOptions } from "gantry/plugin";

/** The driver's options in the section `session`. */
export const sqliteOptions = option.section({
  path: sharedOptions.path,
  durability: sharedOptions.durability,
  migration_copy: option.flag("Whether a new version keeps a copy of the file before it changes its format.", {
    default: true,
  }),
});

type OptionValues = option.Value<typeof sqliteOptions>;

export interface SqliteOptions
  extends Pick<OptionValues, "path">, Partial<Pick<OptionValues, "durability" | "migrationCopy">> {
  /** Maximum number of pages (4 KiB each) to which this driver lets the file grow. Default: SQLite's own limit. */
  maxPages?: number | undefined;
}
