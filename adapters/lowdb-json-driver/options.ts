import { option, sharedOptions } from "gantry/plugin";

/** The driver's options in the section `session`. */
export const lowdbJsonOptions = option.section({
  path: sharedOptions.path,
  durability: sharedOptions.durability,
});

type OptionValues = option.Value<typeof lowdbJsonOptions>;

export interface LowdbJsonOptions extends Pick<OptionValues, "path">, Partial<Pick<OptionValues, "durability">> {}
