// fast-check with the seed of all random tests, see `seedOf`.
import fc from "fast-check";
import { seedOf } from "./random.js";

fc.configureGlobal({ seed: seedOf() });

export { fc };
