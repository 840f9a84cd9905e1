// Parses all expensive Markdown as the console's page does. Prints the length of each result, in characters, as JSON.
import {
  parseBlocks,
  parseGrownText,
  renderHtml,
  parseSingleBlock,
} from "../../adapters/web-console/app/content/blocks.js";
import { EXPENSIVE_MARKDOWN } from "./expensive-markdown.js";

const lengths = Object.entries(EXPENSIVE_MARKDOWN).map(([name, text], index) => {
  const firstHalf = text.slice(0, text.length / 2);
  // Alternates between a complete text and a text that grows.
  const blocks = index % 2 === 0 ? parseSingleBlock(text) : parseGrownText(firstHalf, parseBlocks(firstHalf), text);
  return [
    name,
    blocks.reduce((sum, block) => sum + (block.type === "plain" ? block.raw : renderHtml(block)).length, 0),
  ];
});
console.log(JSON.stringify(Object.fromEntries(lengths)));
