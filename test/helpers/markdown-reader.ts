// Parses all hostile Markdown as the console's page does, and prints the length of each result.
import {
  parseBlocks,
  parseGrownText,
  renderHtml,
  parseSingleBlock,
} from "../../adapters/web-console/app/content/blocks.js";
import { HOSTILE_MARKDOWN } from "./expensive-markdown.js";

const lengths = Object.entries(HOSTILE_MARKDOWN).map(([name, text], index) => {
  const half = text.slice(0, text.length / 2);
  // Alternates between a complete text and one that grows.
  const blocks = index % 2 === 0 ? parseSingleBlock(text) : parseGrownText(half, parseBlocks(half), text);
  return [
    name,
    blocks.reduce((sum, block) => sum + (block.type === "plain" ? block.raw : renderHtml(block)).length, 0),
  ];
});
console.log(JSON.stringify(Object.fromEntries(lengths)));
