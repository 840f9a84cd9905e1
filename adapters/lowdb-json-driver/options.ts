import { option, sharedOptions } from "gantry";

/** Its options under `session`. */
export const lowdbJsonOptions = option.section({
  path: option.path(
    "The folder with one JSON file per session; all else is in the folder `<path>.d` beside it. Default: `sessions` in gantry's home.",
    {
      default: "",
    },
  ),
  durability: sharedOptions.durability,
});

type Read = option.Value<typeof lowdbJsonOptions>;

export interface LowdbJsonOptions extends Pick<Read, "path">, Partial<Pick<Read, "durability">> {}
