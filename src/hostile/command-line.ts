import { NotUnderstood, type Command, type Word } from "./command.js";
import { Heredocs } from "./heredocs.js";
import { isCommanding } from "./odd-commands.js";
import { unwrapped } from "./wrappers.js";

/**
 * Which programs a shell would start for a text. No shell is imitated: what is not plainly understood is not guessed at,
 * and whoever asks is told so. The time is that of the text's length.
 */

const MAX_LENGTH = 32_768;
const MAX_DEPTH = 16;
const MAX_COMMANDS = 512;
/** Words of the shell's language that stand before a command. */
const BEFORE = new Set(["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"]);
/** Those that stand behind a list of them. */
const BEHIND = new Set(["fi", "done", "}"]);
/** Those of forms that are not read. */
const UNREAD = new Set(["case", "esac", "in", "select", "function", "coproc", "[[", "]]"]);
/** Files whose use changes nothing. */
const HARMLESS = new Set(["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"]);
const ENDS = new Set([" ", "\t", "\n", ";", "&", "|", "<", ">", "(", ")"]);
const PLAIN_ARITHMETIC = /\(\([0-9+\-*/%<>=!&|^~ \t]*\)\)/y;
const PARAMETER = /\{(#?[A-Za-z_]\w*|[0-9@*#?$!-]|[A-Za-z_]\w*(:[-+]|[-+]|##?|%%?)[\w./:,@%* -]*)\}/y;
const PLAIN_BRACE = /\}[\w./:=-]*(?=[ \t\n;&|<>()]|$)/y;
const NAME = /[A-Za-z_]\w*|[0-9@*#?$!-]/y;
const REDIRECTION = /&>>?|<<<|<<-?|<&|>&|>\||>>|<>|<|>/y;

/** The commands of a text, those within others too. Throws `NotUnderstood`. */
export function commandsIn(text: string, depth = 0): Command[] {
  if (text.length > MAX_LENGTH) throw new NotUnderstood("it is too long");
  if (text.includes("\0")) throw new NotUnderstood("a NUL character");
  return new Shell(text, depth).all();
}

/** A command as it is read. */
interface Growing {
  words: Word[];
  files: boolean;
  /** Behind `)`, `fi`, `done` or `}`: nothing but redirections follows. */
  closed: boolean;
  /** Behind `time`, which has an option. */
  timed: boolean;
}

const nothing = (): Growing => ({ words: [], files: false, closed: false, timed: false });

class Shell {
  readonly #text: string;
  readonly #depth: number;
  readonly #found: Command[] = [];
  #at = 0;
  #open = 0;

  constructor(text: string, depth: number) {
    if (depth > MAX_DEPTH) throw new NotUnderstood("commands within commands");
    this.#text = text;
    this.#depth = depth;
  }

  all(): Command[] {
    this.#list("");
    return this.#found;
  }

  /** Commands up to `end`, which is read too. */
  #list(end: "" | ")"): void {
    this.#open += 1;
    if (this.#open > MAX_DEPTH) throw new NotUnderstood("commands within commands");
    const heredocs = new Heredocs();
    let growing = nothing();
    const next = (): void => {
      this.#finish(growing);
      growing = nothing();
    };
    for (;;) {
      this.#blanks();
      const char = this.#text[this.#at];
      if (char === undefined || (char === ")" && end === ")")) {
        if ((char === undefined && end !== "") || heredocs.waiting) throw new NotUnderstood("it does not end");
        this.#at += 1;
        this.#open -= 1;
        return next();
      }
      if (char === "\n") {
        this.#at = heredocs.read(this.#text, this.#at + 1);
        next();
      } else if (char === "#") this.#comment();
      else if (this.#redirects()) this.#redirection(growing, heredocs);
      else if (char === ";" || char === "&" || char === "|") {
        if (/^(;[;&]|&&&|\|\|\|)/.test(this.#text.slice(this.#at, this.#at + 3))) throw new NotUnderstood(char);
        this.#at += /^(&&|\|\||\|&)/.test(this.#text.slice(this.#at, this.#at + 2)) ? 2 : 1;
        next();
      } else if (char === "(") {
        if (growing.words.length > 0 || growing.closed || this.#text[this.#at + 1] === "(" || heredocs.waiting)
          throw new NotUnderstood(char);
        this.#at += 1;
        this.#list(")");
        growing.closed = true;
      } else if (char === ")") throw new NotUnderstood(char);
      else {
        const from = this.#at;
        const word = this.#word();
        if (heredocs.waiting && this.#text.slice(from, this.#at).includes("\n"))
          throw new NotUnderstood("a line's end before a here-document");
        this.#take(growing, word);
      }
    }
  }

  #take(growing: Growing, word: Word): void {
    if (growing.closed) throw new NotUnderstood("a word behind the end of a list");
    const isFirst = growing.words.length === 0 && !word.quoted;
    if (isFirst && UNREAD.has(word.text)) throw new NotUnderstood(word.text);
    const first = isFirst && word.known;
    if (first && word.text === "for") this.#loopHead();
    else if (first && BEHIND.has(word.text)) growing.closed = true;
    else if (first && growing.timed && word.text.startsWith("-")) {
      if (word.text !== "-p") throw new NotUnderstood("an option of time");
    } else if (!first || !BEFORE.has(word.text)) growing.words.push(word);
    growing.timed = first && (word.text === "time" || (growing.timed && word.text === "-p"));
  }

  /** `for NAME in WORDS` up to its `do`, whatever is substituted in the words. */
  #loopHead(): void {
    this.#blanks();
    const name = this.#word();
    if (!name.known || name.quoted || !/^[A-Za-z_]\w*$/.test(name.text) || isCommanding(name.text))
      throw new NotUnderstood("for");
    this.#blanks();
    if (this.#text[this.#at] === ";" || this.#text[this.#at] === "\n") return;
    if (this.#word().text !== "in") throw new NotUnderstood("for");
    for (;;) {
      this.#blanks();
      const char = this.#text[this.#at];
      if (char === ";" || char === "\n") return;
      if (char === undefined || (ENDS.has(char) && !this.#isProcess())) throw new NotUnderstood("for");
      this.#word();
    }
  }

  #finish({ words, files }: Growing): void {
    if (words.length === 0 && !files) return;
    const behind = words.findIndex(({ assigns }) => !assigns);
    const assigned = behind < 0 ? words.length : behind;
    if (words.some(({ text, assigns }) => assigns && isCommanding(text))) throw new NotUnderstood("a variable");
    this.#keep({ words, files, assigned, starter: false });
  }

  #keep(command: Command): void {
    const { inner, starter } = unwrapped(command, (text) => commandsIn(text, this.#depth + 1));
    this.#found.push({ ...command, starter });
    for (const one of inner) {
      if ("parsed" in one) this.#found.push(...one.parsed);
      else this.#keep(one);
    }
    if (this.#found.length > MAX_COMMANDS) throw new NotUnderstood("too many commands");
  }

  #blanks(): void {
    for (;;) {
      const char = this.#text[this.#at];
      if (char === " " || char === "\t") this.#at += 1;
      else if (char === "\\" && this.#text[this.#at + 1] === "\n") this.#at += 2;
      else return;
    }
  }

  #comment(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#at = end < 0 ? this.#text.length : end;
  }

  #isProcess(): boolean {
    const two = this.#text.slice(this.#at, this.#at + 2);
    return two === "<(" || two === ">(";
  }

  /** Whether a redirection stands here, with the number of a file or without. */
  #redirects(): boolean {
    return !this.#isProcess() && /^(\d*[<>]|&>)/.test(this.#text.slice(this.#at, this.#at + 12));
  }

  #redirection(growing: Growing, heredocs: Heredocs): void {
    while (/\d/.test(this.#text[this.#at] ?? "")) this.#at += 1;
    if (this.#isProcess()) throw new NotUnderstood("a redirection of a substitution");
    const [kind = ""] = this.#match(REDIRECTION) ?? [];
    this.#blanks();
    if (kind === "<<" || kind === "<<-") return heredocs.add(this.#word(), kind === "<<-");
    const char = this.#text[this.#at];
    if (char === undefined || (ENDS.has(char) && !this.#isProcess()))
      throw new NotUnderstood("a redirection to nothing");
    const { text, known } = this.#word();
    const isHandle = (kind === ">&" || kind === "<&") && /^(\d+-?|-)$/.test(text);
    growing.files ||= !(kind === "<<<" || (known && (isHandle || HARMLESS.has(text))));
  }

  #word(): Word {
    const from = this.#at;
    let text = "";
    let [known, many, quoted, assigns] = [true, false, false, false];
    const unknown = (isMany: boolean): void => {
      known = false;
      many ||= isMany;
    };
    if (this.#isProcess()) {
      this.#at += 2;
      this.#list(")");
      return { text: this.#text.slice(from, this.#at), known: false, many: false, quoted: true, assigns: false };
    }
    for (let char = this.#text[this.#at]; char !== undefined && !ENDS.has(char); char = this.#text[this.#at]) {
      this.#at += 1;
      if (char === "\\") {
        const next = this.#text[this.#at++];
        if (next === undefined) throw new NotUnderstood("a \\ at the end");
        if (next !== "\n") text += next;
        quoted = true;
      } else if (char === "'") {
        const end = this.#text.indexOf("'", this.#at);
        if (end < 0) throw new NotUnderstood("a quote without its end");
        text += this.#text.slice(this.#at, end);
        this.#at = end + 1;
        quoted = true;
      } else if (char === '"') {
        text += this.#quotedText(unknown);
        quoted = true;
      } else if (char === "$") text += this.#dollar(false, unknown);
      else if (char === "`") this.#backquoted(false, unknown);
      else {
        // Whether there are such files, or such braces, is not for us to find out.
        if ("*?".includes(char) || ("[{".includes(char) && !this.#isPlainBrace(char, text === "" && !quoted)))
          unknown(true);
        assigns ||= char === "=" && known && !quoted && /^[A-Za-z_]\w*\+?$/.test(text);
        text += char;
      }
    }
    if (this.#at === from || this.#isProcess()) throw new NotUnderstood(this.#text[this.#at] ?? "nothing");
    return { text: known ? text : this.#text.slice(from, this.#at), known, many, quoted, assigns };
  }

  /** Of a brace that was read: `{`, `[` and `{}` mean themselves. */
  #isPlainBrace(char: string, isFirst: boolean): boolean {
    PLAIN_BRACE.lastIndex = this.#at;
    const next = this.#text[this.#at] ?? " ";
    return (isFirst && ENDS.has(next)) || (char === "{" && PLAIN_BRACE.test(this.#text));
  }

  /** Up to the closing `"`, which is read too. */
  #quotedText(unknown: (many: boolean) => void): string {
    let text = "";
    for (;;) {
      const char = this.#text[this.#at++];
      if (char === undefined) throw new NotUnderstood("a quote without its end");
      if (char === '"') return text;
      if (char === "\\") {
        const next = this.#text[this.#at++] ?? "";
        text += next === "\n" ? "" : '$`"\\'.includes(next) ? next : char + next;
      } else if (char === "$") text += this.#dollar(true, unknown);
      else if (char === "`") this.#backquoted(true, unknown);
      else text += char;
    }
  }

  /** What begins with the `$` that was read; what it stands for where that is known. */
  #dollar(inQuotes: boolean, unknown: (many: boolean) => void): string {
    const char = this.#text[this.#at];
    // What the next line begins with stands right behind the `$`.
    if (char === "\\" && this.#text[this.#at + 1] === "\n") throw new NotUnderstood("a $ at the end of a line");
    if (char === "(") {
      if (this.#text[this.#at + 1] !== "(") {
        this.#at += 1;
        this.#list(")");
      } else if (!this.#match(PLAIN_ARITHMETIC)) throw new NotUnderstood("arithmetic");
    } else if (char === "{") {
      if (!this.#match(PARAMETER)) throw new NotUnderstood("a parameter's expansion");
    } else if (char === "[") throw new NotUnderstood("arithmetic");
    else if (char === "'" && !inQuotes) {
      const end = /'(?:[^'\\]|\\[^])*'/y;
      if (!this.#match(end)) throw new NotUnderstood("a quote without its end");
      unknown(false);
      return "";
    } else {
      const name = this.#match(NAME);
      // What follows is quoted as if there were no `$`.
      if (!name) {
        if (char === '"' && !inQuotes) unknown(false);
        return "$";
      }
      unknown(!inQuotes || name[0] === "@");
      return "";
    }
    unknown(!inQuotes || this.#text.slice(this.#at - 4, this.#at).includes("@"));
    return "";
  }

  #backquoted(inQuotes: boolean, unknown: (many: boolean) => void): void {
    const end = this.#text.indexOf("`", this.#at);
    const inner = this.#text.slice(this.#at, end);
    // There a \ means two things at once, and a quote ends the one around it in some shells.
    if (end < 0 || inner.includes("\\") || (inQuotes && inner.includes('"'))) throw new NotUnderstood("`");
    this.#at = end + 1;
    this.#found.push(...commandsIn(inner, this.#depth + 1));
    unknown(!inQuotes);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at = pattern.lastIndex;
    return found;
  }
}
