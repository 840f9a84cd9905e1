import { useLayoutEffect, useRef } from "preact/hooks";
import { copyToClipboard } from "../parts/clipboard.js";
import { parseBlocks, parseGrownText, parseSingleBlock, type MarkdownBlock } from "./blocks.js";
import { highlightIn } from "./highlighting.js";
import { showBlock } from "./markdown.js";
import { usePacedText } from "./paced-text.js";
import "./markdown.css";

/** Matches a link reference definition. */
const LINK_DEFINITION_PATTERN = /^ {0,3}\[[^\]\n]+\]:/m;

/** Time for which the copy button shows the result, in ms. */
const COPY_RESULT_MS = 1_500;

interface MarkdownProps {
  text: string;
  isStreaming?: boolean;
  /** Makes links of the paths in a new block. A different function is called for all blocks. */
  linkFiles?: (block: Element) => void;
}

/** Renders Markdown. While the text is streamed, only its last blocks are rendered again. */
export function Markdown({ text: fullText, isStreaming = false, linkFiles }: MarkdownProps) {
  const text = usePacedText(fullText, isStreaming);
  const parsedText = useRef<ParsedText>({ text: "", blocks: [], hasGrown: false, fullParseCount: 0 });
  if (parsedText.current.text !== text) {
    const { text: previousText, blocks, fullParseCount: previousParseCount } = parsedText.current;
    const isComplete = previousText === "" && !isStreaming;
    parsedText.current = {
      text,
      blocks: isComplete ? parseSingleBlock(text) : parseGrownText(previousText, blocks, text),
      hasGrown: !isComplete,
      fullParseCount: previousParseCount,
    };
  }
  // Blocks that were shown before a link definition arrived have no link: parse the whole text once it is complete.
  if (!isStreaming && parsedText.current.hasGrown && text === fullText) {
    const { fullParseCount: previousParseCount } = parsedText.current;
    parsedText.current.hasGrown = false;
    if (LINK_DEFINITION_PATTERN.test(text))
      parsedText.current = { text, blocks: parseBlocks(text), hasGrown: false, fullParseCount: previousParseCount + 1 };
  }
  const { blocks, fullParseCount } = parsedText.current;
  return (
    <div class="markdown">
      {blocks.map((block, index) => (
        <BlockView
          key={index}
          block={block}
          fullParseCount={fullParseCount}
          isStreaming={isStreaming && index === blocks.length - 1}
          linkFiles={linkFiles}
        />
      ))}
    </div>
  );
}

interface ParsedText {
  text: string;
  blocks: readonly MarkdownBlock[];
  /** Whether the text was parsed in pieces since the last parse of the whole text. */
  hasGrown: boolean;
  /** Number of parses of the whole text after its end was received. */
  fullParseCount: number;
}

/** A block. Renders again only if the block's source has changed or the whole text was parsed again. */
function BlockView({
  block,
  fullParseCount,
  isStreaming,
  linkFiles,
}: {
  block: MarkdownBlock;
  fullParseCount: number;
  isStreaming: boolean;
  linkFiles: MarkdownProps["linkFiles"];
}) {
  const container = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = container.current;
    if (!element) return;
    showBlock(element, block);
    for (const pre of element.querySelectorAll("pre")) addCodeHeader(pre);
  }, [block.raw, fullParseCount]);
  useLayoutEffect(() => {
    if (container.current) linkFiles?.(container.current);
  }, [block.raw, fullParseCount, linkFiles]);
  useLayoutEffect(
    () => (isStreaming || !container.current ? undefined : highlightIn(container.current)),
    [block.raw, fullParseCount, isStreaming],
  );
  return <div class={`markdown-block markdown-${block.type}`} ref={container} />;
}

/** Adds the language and a copy button above code. */
function addCodeHeader(pre: HTMLPreElement): void {
  const code = pre.querySelector("code");
  if (!code) return;
  const language = /language-(\S+)/.exec(code.className)?.[1] ?? "";
  const frame = document.createElement("div");
  frame.className = "code";
  const header = document.createElement("div");
  header.className = "code-head";
  const languageLabel = document.createElement("span");
  languageLabel.textContent = language === "none" ? "" : language;
  const copyButton = document.createElement("button");
  copyButton.type = "button";
  copyButton.className = "code-copy";
  copyButton.textContent = "Copy";
  copyButton.setAttribute("aria-label", "Copy this code");
  copyButton.addEventListener("click", () => {
    void copyToClipboard(code.textContent).then((isCopied) => {
      copyButton.textContent = isCopied ? "Copied" : "Not allowed";
      setTimeout(() => (copyButton.textContent = "Copy"), COPY_RESULT_MS);
    });
  });
  header.append(languageLabel, copyButton);
  pre.replaceWith(frame);
  // Make the code focusable, so that the keyboard can scroll it sideways.
  pre.tabIndex = 0;
  frame.append(header, pre);
}
