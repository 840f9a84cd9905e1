import type { FakePiece, FakeStep } from "./fake-model-server.js";

/** Random words; some contain an emoji that is split into its halves. */
function createWords(random: () => number, name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const kind = random();
    return kind < 0.06 ? ["\ud83d", "\ude42 "] : [`${name}${n}${kind < 0.1 ? "\u2028" : ""} `];
  }).flat();
}

/** A random answer on a wire: reasoning, text in pieces, calls. Some answers are interrupted. */
export function createRandomStep(random: () => number): FakeStep {
  const say: FakePiece[] = [];
  if (random() < 0.4) say.push({ reasoning: createWords(random, "why", 1 + random() * 8) });
  say.push({ text: createWords(random, "word", 1 + random() * 70) });
  if (random() < 0.35) say.push({ call: { name: "glob", arguments: { pattern: "*" } } });
  return {
    say,
    pace: Math.floor(random() * 6),
    ...(random() < 0.1 ? { breaks: { at: random(), by: random() < 0.5 ? ("reset" as const) : ("cut" as const) } } : {}),
  };
}
