import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

const TOKENS_FILE = new URL("../../../adapters/web-console/app/styles/tokens.css", import.meta.url);
/** Backgrounds, and the text colours that can appear on any of them. */
const BACKGROUNDS = [
  "bg",
  "bg-side",
  "bg-raised",
  "bg-sunk",
  "bg-hover",
  "bg-active",
  "accent-soft",
  "add-bg",
  "del-bg",
];
const TEXT_COLOURS = ["text", "text-soft", "text-faint", "accent", "good", "bad", "warn"];
/** Minimum contrast of WCAG level AA for text of any size. */
const MIN_CONTRAST = 4.5;

test("each text colour has a contrast of at least 4.5 on each background, in both themes", async () => {
  const css = await readFile(TOKENS_FILE, "utf8");
  const tokens = [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g)];
  // The capture group that holds the colour of a theme.
  const groupsByTheme = { light: 2, dark: 3 };
  const insufficientPairs: string[] = [];
  for (const [name, group] of Object.entries(groupsByTheme)) {
    const coloursByToken = new Map(tokens.map((token) => [token[1] ?? "", token[group]]));
    const pairs = [
      ...BACKGROUNDS.flatMap((surface) => TEXT_COLOURS.map((text) => [text, surface] as const)),
      ...["good", "bad", "warn"].map((text) => [text, `${text}-soft`] as const),
      ...[...coloursByToken.keys()]
        .filter((token) => /^(?:code|ansi)-/.test(token))
        .map((token) => [token, "bg-sunk"] as const),
      ["accent-text", "accent"] as const,
    ];
    for (const [text, surface] of pairs) {
      const contrast = getContrast(coloursByToken.get(text), coloursByToken.get(surface));
      if (!(contrast >= MIN_CONTRAST)) insufficientPairs.push(`${name}: ${text} on ${surface}: ${contrast.toFixed(2)}`);
    }
  }
  assert.deepEqual(insufficientPairs, []);
});

/** Returns the contrast ratio of WCAG 2 for two colours in the form `#rrggbb`. */
function getContrast(firstColour = "", secondColour = ""): number {
  const [darker = 0, lighter = 0] = [getLuminance(firstColour), getLuminance(secondColour)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

/** Returns the relative luminance of WCAG 2, from 0 to 1. */
function getLuminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5]
    .map((offset) => Number.parseInt(colour.slice(offset, offset + 2), 16) / 255)
    .map((channel) => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
