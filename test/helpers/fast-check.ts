// Exports fast-check with the seed of `readSeed`.
import fc from "fast-check";
import { readSeed } from "./random.js";

fc.configureGlobal({ seed: readSeed() });

export { fc };
