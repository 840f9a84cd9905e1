/**
 * What looks at JavaScript and TypeScript: the project's own compiler (where `process.argv[2]` is `compiler`), else Node. Files come
 * packed on the standard input, and go with what is wrong behind the mark in `process.argv[1]`. Where a dialect may be meant, nothing is said.
 */
export const NODE_SCRIPT = `
const [, mark, own] = process.argv, zlib = require("zlib"), vm = require("vm"), fs = require("fs"), { dirname, join } = require("path");
const files = JSON.parse(zlib.gunzipSync(Buffer.from(fs.readFileSync(0, "latin1"), "base64")));
const compiler = (path) => { try { const ts = own === "compiler" && require("module").createRequire(path)("typescript"); return ts && ts.createSourceFile && ts; } catch {} };
const byCompiler = (ts, path, text) => {
  const source = ts.createSourceFile(path, text, 99, false);
  return source.parseDiagnostics.map((one) => ({
    line: source.getLineAndCharacterOfPosition(one.start).line + 1,
    message: ts.flattenDiagnosticMessageText(one.messageText, " "),
  }));
};
const read = (path) => { try { return fs.readFileSync(path, "utf8"); } catch { return ""; } };
const around = (path, fits) => { for (let at = dirname(path), depth = 0; depth < 12; depth++, at = dirname(at)) { if (fits(at)) return true; if (dirname(at) === at) break; } return false; };
const isFlow = (path, text) => /@(no)?flow\\b/.test(text.slice(0, 5000)) || around(path, (at) => fs.existsSync(join(at, ".flowconfig")) || /"(flow-bin|react-native)"|flow-remove|preset-flow/.test(read(join(at, "package.json"))));
const isCompiled = (path) => around(path, (at) => /babel|flow|react|preact|solid-js|sucrase|esbuild|swc|vite|webpack|rollup|parcel|typescript|decorators/.test(read(join(at, "package.json"))) || ["babel.config.js", "babel.config.json", "babel.config.cjs", ".babelrc", ".babelrc.js", ".babelrc.json", ".swcrc"].some((name) => fs.existsSync(join(at, name))));
const PROPOSED = /^\\s*@[A-Za-z_$][\\w$.]*(\\(|\\s|$)|\\|>|^\\s*(await\\s+)?using\\s|\\bimport\\s+(defer|source)\\b|\\bassert\\s*\\{|#\\{|\\bdo\\s*\\{[^]*\\}\\s*[;,)]|^\\s*export\\s+\\w+\\s+from\\b|^\\s*(import|export)\\s+(type|typeof|opaque)\\b|^\\s*(declare|opaque)\\s/m;
const TEMPLATED = /<%|\\{%|\\{\\{\\s*cookiecutter\\b/;
const failed = (work) => { try { work(); } catch (error) { return error; } };
const byNode = (path, text) => {
  const plain = text.replace(/^#!.*/, "");
  const script = (kind, body) => failed(() => new vm.Script("(" + kind + "(exports, require, module, __filename, __dirname) {" + body + "\\n})", { filename: "x" }));
  const common = script("function", plain);
  const module = failed(() => new vm.SourceTextModule(plain));
  if (!common && !/\\.mjs$/i.test(path)) return [];
  if (!module && !/\\.cjs$/i.test(path)) return [];
  const isCommon = /\\.cjs$/i.test(path) || (!/\\.mjs$/i.test(path) && !/^\\s*(import|export)\\b/m.test(plain));
  const error = isCommon ? common : module;
  if (!error || /token '<'|Invalid regular expression(?!: missing)/.test(error.message) || PROPOSED.test(plain)) return undefined;
  // Of a module Node does not tell the line: what is left of it without imports and exports has the same fault, as a rule.
  const body = plain.replace(/^(\\s*)import\\b[^;(]*?from\\s*(["']).*?\\2/gm, (all) => all.replace(/[^\\n]/g, " ")).replace(/^(\\s*)export\\s+(default\\s+)?/gm, "$1");
  const alike = isCommon ? common : script("async function", body);
  const line = alike && alike.message === error.message && /^x:(\\d+)/.exec(alike.stack);
  return [{ line: line ? Number(line[1]) : 0, message: error.message }];
};
const done = files.map(({ path, was, is }) => {
  const ts = compiler(path), plain = /\\.[cm]?js$/i.test(path);
  if (TEMPLATED.test(is) || (/\\.([cm]?js|jsx)$/i.test(path) && isFlow(path, is))) return null;
  if (!ts && !plain) return null;
  const faults = ts ? (text) => byCompiler(ts, path, text) : (text) => byNode(path, text);
  const now = faults(is), before = was === null ? [] : faults(was);
  if (!now || !before || (!ts && before.length > 0)) return null;
  // Two say so, or one who knows what it is read with.
  if (ts && plain && now.length > 0) { const also = byNode(path, is); if (PROPOSED.test(is) || (also && also.length === 0)) return null; }
  if (!ts && now.length > 0 && (was === null || was.trim() === "") && isCompiled(path)) return null;
  return { is: now, was: before };
});
console.log("\\n" + mark + JSON.stringify(done));
`;

/** The same for Python; what a newer one may know is not told. */
export const PYTHON_SCRIPT = `
import sys, json, base64, gzip, ast, re
files = json.loads(gzip.decompress(base64.b64decode(sys.stdin.read())))
NEWER = [
    ((3, 9), r"^\\s*(async\\s+)?with\\s*\\(|^\\s*@"),
    ((3, 10), r"^\\s*(match|case)\\b.*:\\s*(#.*)?$|^\\s*(async\\s+)?with\\s*\\("),
    ((3, 11), r"except\\s*\\*|\\[[^\\]]*\\*"),
    ((3, 12), r"^\\s*type\\s+\\w|^\\s*(async\\s+)?def\\s+\\w+\\s*\\[|^\\s*class\\s+\\w+\\s*\\[|\\b[fF][rR]?[\\"']|\\b[rR][fF][\\"']"),
    ((3, 14), r"except\\s+[\\w.]+\\s*,|\\b[tT][rR]?[\\"']|\\b[rR][tT][\\"']"),
    ((3, 15), r"^\\s*lazy\\s|[\\[{(]\\s*\\*|\\*\\*?\\w+\\s+for\\b"),
    ((99,), r"^\\s*[%!]|^\\s*\\??\\w+\\?\\??\\s*$|\\{%|\\{\\{\\s*\\w|<%|^\\s*(print|exec)\\s+[^=(]|^#!.*python2"),
]
def doubtful(text, line):
    lines = text.split("\\n")
    near = "\\n".join(lines[:1] + lines[max(0, line - 6):line + 2])
    return any(sys.version_info < version and re.search(form, near, re.M) for version, form in NEWER)
def faults(text):
    try:
        ast.parse(text)
        return []
    except SyntaxError as error:
        line = error.lineno or 1
        if doubtful(text, line):
            return None
        return [{"line": line, "message": "%s (Python %d.%d)" % (error.msg, *sys.version_info[:2])}]
    except Exception:
        return None
def both(file):
    now, before = faults(file["is"]), faults(file["was"] or "")
    return None if now is None or before is None or before else {"is": now, "was": before}
print("\\n" + sys.argv[1] + json.dumps([both(file) for file in files]))
`;
