import { posix } from "node:path";
import { NotUnderstood, type Command, type Word } from "./command.js";
import { runsMore } from "./odd-commands.js";

/** What a command starts: further commands, and those that were read from a text. */
export interface Unwrapped {
  readonly inner: readonly (Command | { readonly parsed: readonly Command[] })[];
  /** It does nothing beside. */
  readonly starter: boolean;
}

/** How a program is told which other one to start. */
interface Form {
  /** Options with a value, in the next word or in the same one. */
  readonly values?: readonly string[];
  /** Options without one. */
  readonly flags?: RegExp;
  /** Words of its own before the command. */
  readonly operands?: number;
  /** Whether variables may be set before the command. */
  readonly assigns?: boolean;
  /** Whether further words come to the command while it runs. */
  readonly appends?: boolean;
  /** Whether the command runs as if it stood alone. */
  readonly plain?: boolean;
  /** Whether nothing behind it means a shell that reads commands. */
  readonly shell?: boolean;
}

const FORMS: ReadonlyMap<string, Form> = new Map(
  Object.entries({
    sudo: {
      values: ["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R"],
      flags: /^-[AbBEHiKklnPSsVv]+$|^--(non-interactive|preserve-env|set-home|background|stdin)$/,
      assigns: true,
      shell: true,
    },
    doas: { values: ["-u", "-C"], flags: /^-[nLs]+$/, shell: true },
    env: { values: ["-u", "-C"], flags: /^-[i0v]*$|^--ignore-environment$/, assigns: true, plain: true },
    nice: { values: ["-n"], flags: /^-\d+$/, plain: true },
    nohup: { plain: true },
    setsid: { flags: /^-[cfw]+$/, plain: true },
    timeout: {
      values: ["-s", "-k"],
      flags: /^--(preserve-status|foreground|verbose)$|^--(signal|kill-after)=/,
      operands: 1,
      plain: true,
    },
    time: { values: ["-f", "-o"], flags: /^-[pvqa]+$/ },
    stdbuf: { values: ["-i", "-o", "-e"], plain: true },
    ionice: { values: ["-c", "-n"], flags: /^-t$/, plain: true },
    command: { flags: /^-p$/, plain: true },
    builtin: { plain: true },
    exec: { values: ["-a"], flags: /^-[cl]+$/ },
    busybox: {},
    toybox: {},
    xargs: {
      values: ["-I", "-n", "-P", "-L", "-d", "-E", "-s", "-a"],
      flags: /^-[0rtpox]+$|^--(null|no-run-if-empty|verbose|exit|open-tty)$/,
      appends: true,
      plain: true,
    },
  } satisfies Record<string, Form>),
);

/** They run what is in no word of theirs, or change what words mean. */
const UNREADABLE = new Set(
  (
    "alias at batch bind bwrap capsh catchsegv cgexec choom chroot chrt compgen complete compopt cpulimit csh " +
    "dbus-launch dbus-run-session declare enable entr expect fakeroot firejail fish flock gosu hash i386 i686 ksh let " +
    "linux32 linux64 local logsave mapfile newgrp nsenter numactl parallel pkexec powershell prlimit proot pwsh " +
    "readarray readonly runcon runuser rush screen script setarch setpriv sg shopt ssh-agent start-stop-daemon strace " +
    "ltrace su su-exec systemd-run taskset tcsh tmux typeset unbuffer uname26 unshare watch x86_64 xvfb-run zsh"
  ).split(" "),
);
const SHELLS = new Set(["sh", "bash", "rbash", "dash", "ash"]);
const STARTS_OTHERS = new Set(["-exec", "-execdir", "-ok", "-okdir"]);
/** What may become none, one or many words. */
const REST: Word = { text: "", known: false, many: true, quoted: false, assigns: false };

/** What a command starts. `parse` reads a text. Throws `NotUnderstood`. */
export function unwrapped(command: Command, parse: (text: string) => readonly Command[]): Unwrapped {
  const [program, ...words] = command.words.slice(command.assigned);
  if (!program?.known) return { inner: [], starter: false };
  const name = program.text.slice(program.text.lastIndexOf("/") + 1).toLowerCase();
  const setting = command.words.slice(0, command.assigned);
  if (UNREADABLE.has(name) || /^ld(-linux.*)?\.so/.test(name) || runsMore(name, words)) throw new NotUnderstood(name);
  if (name === "eval")
    return { inner: [{ parsed: parse(known(operands(words)).join(" ")) }], starter: setting.length === 0 };
  if (name === "trap") return { inner: trapped(operands(words), parse), starter: false };
  if (name === "." || name === "source") {
    if (known(operands(words).slice(0, 1)).some(isStream)) throw new NotUnderstood("a file that is none");
    return { inner: [], starter: false };
  }
  if (SHELLS.has(name)) return ofShell(words, parse, setting.length === 0 && !command.files);
  if (name === "find" || name === "fd" || name === "fdfind")
    return { inner: ofFind(name, words, command), starter: false };
  const form = FORMS.get(name);
  if (!form) return { inner: [], starter: false };
  if (name === "command" && /^-[vV]/.test(words[0]?.text ?? "")) return { inner: [], starter: false };
  const given = form.assigns ? words.map(asSetting) : words;
  const inner = behind(given, form);
  if (inner.length === 0) {
    if (form.shell && words.some(({ text }) => /^-\w*[is]/.test(text)))
      throw new NotUnderstood("a shell that reads commands");
    return { inner: [], starter: false };
  }
  const place = name === "xargs" ? placeholder(words.slice(0, words.length - inner.length)) : undefined;
  const read = inner.map((word) =>
    place !== undefined && word.text.includes(place) ? { ...word, known: false } : word,
  );
  const all = [...setting, ...read, ...(form.appends ? [REST] : [])];
  const own = all.findIndex(({ assigns }) => !assigns);
  const assigned = form.assigns ? (own < 0 ? all.length : own) : setting.length;
  return {
    inner: [{ words: all, assigned, files: command.files, starter: false }],
    starter: form.plain === true,
  };
}

/** What stands for the words that come to the command of `xargs`, after its options; undefined where nothing does. */
function placeholder(options: readonly Word[]): string | undefined {
  const at = options.findIndex(({ text }) => text.startsWith("-I"));
  const option = options[at];
  if (!option) return undefined;
  // One that nobody knows may be any of the words.
  const own = option.text === "-I" ? options[at + 1] : { ...option, text: option.text.slice(2) };
  return own?.known ? own.text : "";
}

/** Those behind `--`. */
function operands(words: readonly Word[]): readonly Word[] {
  return words[0]?.text === "--" ? words.slice(1) : words;
}

/** Such a program takes whatever has a `=` for a variable, quoted or not. */
function asSetting(word: Word): Word {
  return /^([^-=][^=]*)?=/.test(word.text) ? { ...word, assigns: true } : word;
}

/** The words of the command behind a program's own. */
function behind(words: readonly Word[], { values = [], flags, operands = 0, assigns = false }: Form): readonly Word[] {
  let at = 0;
  let options = true;
  for (let left = operands; at < words.length; at++) {
    const word = words[at]!;
    if (!word.known && !word.assigns) {
      // Which of its words is the program, nobody knows.
      if (left > 0 || word.many || assigns) throw new NotUnderstood("a program that starts others");
      return words.slice(at);
    }
    if (assigns && word.assigns) return words.slice(at);
    if (!options || !word.text.startsWith("-") || (word.text === "-" && !flags?.test("-"))) {
      if (left === 0) return words.slice(at);
      left -= 1;
      options = false;
    } else if (word.text === "--") options = false;
    else if (values.includes(word.text)) {
      at += 1;
      if (words[at]?.many !== false) throw new NotUnderstood("an option");
    } else if (!flags?.test(word.text) && !values.some((value) => word.text.startsWith(value)))
      throw new NotUnderstood(`the option ${word.text}`);
  }
  return [];
}

function ofShell(words: readonly Word[], parse: (text: string) => readonly Command[], alone: boolean): Unwrapped {
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    if (!word.known) throw new NotUnderstood("a shell's words");
    if (/^-[abefhlmnprtuvx]*c[abefhlmnprtuvx]*$/.test(word.text)) {
      const text = words[at + 1];
      if (text?.known !== true || /^[-+]/.test(text.text)) throw new NotUnderstood("a shell's commands");
      return { inner: [{ parsed: parse(text.text) }], starter: alone };
    }
    if (word.text === "-o" || word.text === "+o") at += 1;
    else if (/^[-+]/.test(word.text)) {
      if (!/^([-+][abefhlmnpruvx]+|--(norc|noprofile|posix|login|version|help))$/.test(word.text))
        throw new NotUnderstood(`the option ${word.text} of a shell`);
      if (word.text === "--version" || word.text === "--help") return { inner: [], starter: false };
    } else if (isStream(word.text)) break;
    else return { inner: [], starter: false };
  }
  throw new NotUnderstood("a shell that reads commands");
}

/** What another command says there, from whichever folder. */
function isStream(path: string): boolean {
  return /^\/+(dev|proc)\/|(^|\/)(stdin|fd\/\d+)$/.test(posix.normalize(path));
}

function trapped(words: readonly Word[], parse: (text: string) => readonly Command[]): Unwrapped["inner"] {
  const [text = ""] = known(words.slice(0, 1));
  if (text === "" || text.startsWith("-")) return [];
  return [{ parsed: parse(text) }];
}

function ofFind(name: string, words: readonly Word[], command: Command): Command[] {
  const inner: Command[] = [];
  for (let at = 0; at < words.length; at++) {
    const { text, known: isKnown } = words[at]!;
    if (!isKnown && (/[$`]/.test(text) || mayStartOthers(text)))
      throw new NotUnderstood("what it looks for is not known before");
    if (name !== "find" && (/^-[a-z]*[xX]/.test(text) || text.startsWith("--exec"))) throw new NotUnderstood(text);
    if (name !== "find" || !isKnown || !STARTS_OTHERS.has(text)) continue;
    const end = words.findIndex((word, i) => i > at && (word.text === ";" || word.text === "+"));
    if (end < 0) throw new NotUnderstood(text);
    const its = words.slice(at + 1, end).map((word) => (word.text.includes("{}") ? { ...word, known: false } : word));
    inner.push({ words: [...its, REST], assigned: 0, files: command.files, starter: false });
    at = end;
  }
  return inner;
}

/** Whether a pattern for file names, or one in braces, may become an option that starts a command. */
function mayStartOthers(text: string): boolean {
  const bare = text.replace(/["'\\]/g, "");
  if (/\{[^{}]*(,|\.\.)/.test(bare)) return bare.includes("-");
  const wanted = bare.replace(/[^\w-]/g, (char) => (char === "*" ? ".*" : char === "?" ? "." : `\\${char}`));
  return bare.includes("[")
    ? /^[-*?[]/.test(bare)
    : [...STARTS_OTHERS].some((one) => new RegExp(`^${wanted}$`).test(one));
}

function known(words: readonly Word[]): string[] {
  if (words.some((word) => !word.known)) throw new NotUnderstood("what it runs is not known before");
  return words.map(({ text }) => text);
}
