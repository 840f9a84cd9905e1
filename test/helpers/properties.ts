// Exports fast-check with the seed of `seedOf`.
import fc from "fast-check";
import { seedOf } from "./random.js";

fc.configureGlobal({ seed: seedOf() });

export { fc };
