import type { Node } from "@vscode/tree-sitter-wasm";
import { childrenOf, parseText } from "../grammar.js";

/**
 * Reads the simple commands of a shell line from the syntax tree of tree-sitter-bash.
 *
 * A line is understood only if it consists of simple commands with literal or quoted words, lists, pipelines and
 * redirections. Each word and each gap between two words must also pass the checks below. These checks do not depend on
 * the grammar, so a parser error cannot hide a command. Bash, dash and busybox read such a line in the same way.
 */

/** A word of a simple command. */
export interface ShellWord {
  /** The argument that the program receives; the source text if `isLiteral` is false. */
  readonly text: string;
  /** False if the shell can change the word, because of a variable, a file name pattern, a brace or a tilde. */
  readonly isLiteral: boolean;
  /** Whether the shell can replace the word with no word, or with several words. */
  readonly isSplit: boolean;
  /** The kind of expansion in the word, other than file names. Undefined if there is none. */
  readonly expansion: "variable" | "tilde" | undefined;
}

/** A simple command. */
export interface ShellCommand {
  /** Program and arguments; empty for a redirection without a program. */
  readonly words: readonly ShellWord[];
  /** Whether a redirection names a file other than /dev/null and the standard streams. */
  readonly hasFiles: boolean;
}

export interface ShellLine {
  /** All simple commands that the parser found, including those in substitutions and functions. */
  readonly commands: readonly ShellCommand[];
  /** False if a shell can start a program that is not among `commands`. */
  readonly isUnderstood: boolean;
}

const MAX_LINE_CHARACTERS = 32_768;
const MAX_COMMANDS = 512;
/**
 * Time limit of the parser, in ms. A line that is understood takes milliseconds; a line with thousands of errors takes
 * 12 s.
 */
const PARSE_TIMEOUT_MS = 1_000;
const RESERVED_WORDS = new Set(
  "if then elif else fi for while until do done case esac in select function coproc { } ! [[ ]]".split(" "),
);
const SAFE_FILES = new Set(["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"]);
/** Nodes whose children are commands. */
const GROUP_TYPES = new Set(["program", "list", "pipeline"]);
const SEPARATORS = new Set([";", "&", "&&", "||", "|"]);
const UNQUOTED_TEXT = /^(?:[\w@%+=:,./^!~{}*?[\]#-]|\\[\x20-\x7e])+$/;
const DOUBLE_QUOTED_TEXT = /^"(?:[^"\\`$]|\\[^\n]|\$(?=[ |)/"])|\$[A-Za-z_]\w*)*"$/;
const VARIABLE = /\$[A-Za-z_]/;
/**
 * Text between two words of a command. A line continuation must follow a blank, because within a word the shell removes
 * it.
 */
const BLANKS = /^(?:[ \t]|(?<=[ \t])\\\n)*$/;
/** Text between two commands of a list. */
const LINE_BREAKS = /^[ \t]*(?:\n[ \t\n]*)?$/;

/** Parses a shell line. Rejects if the grammar cannot be loaded. */
export async function readShellLine(text: string): Promise<ShellLine> {
  // eslint-disable-next-line no-control-regex -- the check rejects control characters
  if (text.length > MAX_LINE_CHARACTERS || /[\0-\x08\x0b-\x1f\x7f]/.test(text))
    return { commands: [], isUnderstood: false };
  const tree = await parseText("bash", text, PARSE_TIMEOUT_MS);
  if (!tree) return { commands: [], isUnderstood: false };
  try {
    const commands: ShellCommand[] = [];
    const isUnderstood = !tree.rootNode.hasError && readGroup(tree.rootNode, text, commands);
    if (isUnderstood && commands.length <= MAX_COMMANDS) return { commands, isUnderstood };
    const nodes = tree.rootNode.descendantsOfType("command").slice(0, MAX_COMMANDS);
    return { commands: nodes.map((node) => readUnparsedCommand(node!)), isUnderstood: false };
  } finally {
    tree.delete();
  }
}

/** Adds the commands of a tree to `commands`. Returns false if a part is not understood. */
function readGroup(root: Node, text: string, commands: ShellCommand[]): boolean {
  /** Leaves of the structure in the order of the text: commands, separators and comments. */
  const parts: Node[] = [];
  const pendingNodes = [root];
  for (let node = pendingNodes.pop(); node; node = pendingNodes.pop()) {
    if (GROUP_TYPES.has(node.type)) pendingNodes.push(...childrenOf(node).toReversed());
    else parts.push(node);
  }
  let end = 0;
  /** Whether a command is complete and no separator has followed yet. */
  let isComplete = false;
  for (const part of parts) {
    const gap = text.slice(end, part.startIndex);
    if (isComplete && gap.includes("\n")) isComplete = false;
    if (!(BLANKS.test(gap) || LINE_BREAKS.test(gap))) return false;
    end = part.endIndex;
    if (part.type === "comment") {
      // Within a word, the shell treats `#` as an ordinary character.
      if (gap === "" && part.startIndex > 0 && !/[\s;&|]/.test(text[part.startIndex - 1]!)) return false;
    } else if (SEPARATORS.has(part.type)) {
      isComplete = false;
    } else {
      const command = isComplete ? undefined : readCommand(part, text);
      if (!command) return false;
      commands.push(command);
      isComplete = true;
    }
  }
  return LINE_BREAKS.test(text.slice(end)) || BLANKS.test(text.slice(end));
}

/** Reads a command: words and, after the words, redirections. Undefined if the node has another part. */
function readCommand(node: Node, text: string): ShellCommand | undefined {
  const parts = node.type === "redirected_statement" ? childrenOf(node) : [node];
  const words: ShellWord[] = [];
  let hasFiles = false;
  let end = node.startIndex;
  for (const part of parts) {
    if (part.type === "command") {
      for (const child of childrenOf(part)) {
        const word = readWord(child, text);
        if (!word || !BLANKS.test(text.slice(end, child.startIndex))) return undefined;
        // The shell may treat the first word as a keyword or an assignment.
        if (
          words.length === 0 &&
          (child.type !== "command_name" || RESERVED_WORDS.has(child.text) || child.text.includes("="))
        )
          return undefined;
        if (words.length > 0 && end === child.startIndex) return undefined;
        words.push(word);
        end = child.endIndex;
      }
    } else if (part.type === "file_redirect") {
      const redirection = readRedirection(part, text);
      if (redirection === undefined || !BLANKS.test(text.slice(end, part.startIndex))) return undefined;
      hasFiles ||= redirection;
      end = part.endIndex;
    } else return undefined;
  }
  return { words, hasFiles };
}

/**
 * Returns whether the redirection names a file outside `SAFE_FILES`; undefined if the redirection is not understood.
 */
function readRedirection(node: Node, text: string): boolean | undefined {
  const match = /^([0-9])?(>>|>\||>&|<&|<>|&>>|&>|<|>)(?:[ \t]*)/.exec(node.text);
  const target = childrenOf(node).at(-1)!;
  if (!match || node.startIndex + match[0].length !== target.startIndex) return undefined;
  // A digit directly after a word belongs to that word.
  if (match[1] !== undefined && /[^\s;&|]/.test(text[node.startIndex - 1] ?? " ")) return undefined;
  const word = readWord(target, text);
  if (!word?.isLiteral || word.text === "") return undefined;
  if (/^[<>]&$/.test(match[2]!) && /^([0-9]|-)$/.test(word.text)) return false;
  return !SAFE_FILES.has(word.text);
}

/** Reads a word. Undefined if the word is not understood. */
function readWord(node: Node, text: string): ShellWord | undefined {
  const pieces = splitPieces(node);
  let value = "";
  let [isLiteral, isSplit] = [true, false];
  let expansion: ShellWord["expansion"];
  let end = node.startIndex;
  for (const piece of pieces) {
    if (piece.startIndex !== end) return undefined;
    end = piece.endIndex;
    const source = piece.text;
    if (piece.type === "raw_string") {
      if (!/^'[^']*'$/.test(source)) return undefined;
      value += source.slice(1, -1);
    } else if (piece.type === "string") {
      if (!DOUBLE_QUOTED_TEXT.test(source)) return undefined;
      if (VARIABLE.test(source.replaceAll(/\\./gs, ""))) [isLiteral, expansion] = [false, "variable"];
      value += source.slice(1, -1).replaceAll(/\\([$`"\\])/g, "$1");
    } else if (piece.type === "simple_expansion") {
      if (!/^\$[A-Za-z_]\w*$/.test(source)) return undefined;
      [isLiteral, isSplit, expansion] = [false, true, "variable"];
    } else if (piece.type === "word" || piece.type === "number") {
      if (!UNQUOTED_TEXT.test(source) || (value === "" && source.startsWith("#"))) return undefined;
      const unescapedText = source.replaceAll(/\\./g, "");
      if (/[*?[{]/.test(unescapedText)) [isLiteral, isSplit] = [false, true];
      if (/(^|[=:])~/.test(source)) [isLiteral, expansion] = [false, "tilde"];
      value += source.replaceAll(/\\(.)/g, "$1");
    } else return undefined;
  }
  if (end !== node.endIndex) return undefined;
  return { text: isLiteral ? value : text.slice(node.startIndex, node.endIndex), isLiteral, isSplit, expansion };
}

function splitPieces(node: Node): readonly Node[] {
  if (node.type === "command_name") return childrenOf(node).flatMap(splitPieces);
  return node.type === "concatenation" ? childrenOf(node).flatMap(splitPieces) : [node];
}

/**
 * Reads a command of a line that is not understood, for rules that deny or ask. Assignments and redirections are
 * omitted.
 */
function readUnparsedCommand(node: Node): ShellCommand {
  const toUnknownWord = (child: Node): ShellWord => ({
    text: child.text,
    isLiteral: false,
    isSplit: true,
    expansion: "variable",
  });
  const words = childrenOf(node)
    .filter(({ type }) => type !== "variable_assignment" && !type.endsWith("redirect"))
    .map((child) => readWord(child, node.tree.rootNode.text) ?? toUnknownWord(child));
  return { words, hasFiles: true };
}
