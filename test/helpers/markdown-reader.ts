// Reads all hostile Markdown as the console's page does, and prints how long what it makes of each is.
import { blocksOf, blocksOfGrown, htmlOf, wholeOf } from "../../adapters/web-console/app/content/blocks.js";
import { HOSTILE_MARKDOWN } from "./hostile-markdown.js";

const lengths = Object.entries(HOSTILE_MARKDOWN).map(([name, text], index) => {
  const half = text.slice(0, text.length / 2);
  // As it is told, and as it comes.
  const blocks = index % 2 === 0 ? wholeOf(text) : blocksOfGrown(half, blocksOf(half), text);
  return [name, blocks.reduce((sum, block) => sum + (block.type === "plain" ? block.raw : htmlOf(block)).length, 0)];
});
console.log(JSON.stringify(Object.fromEntries(lengths)));
