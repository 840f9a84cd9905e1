/**
 * The seed of random tests: the variable SEED, default 1, so that each run tests the same values. The soak sets other
 * seeds.
 */
export function readSeed(): number {
  return Number(process.env["SEED"] ?? 1);
}

/** Random numbers between 0 and 1 that a seed determines (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
