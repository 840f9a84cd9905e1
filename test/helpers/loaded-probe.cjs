// Preloaded into a process by loaded-files.ts. Reports the loaded files when the process writes the expected text.
const { readdirSync, readFileSync, writeFileSync } = require("node:fs");
const path = require("node:path");

const { PROBE_UNTIL, PROBE_OUT, NODE_V8_COVERAGE } = process.env;
const readyPattern = new RegExp(PROBE_UNTIL);
const { stdout } = process;
const originalWrite = stdout._write;
stdout._write = function (chunk, encoding, done) {
  if (readyPattern.test(String(chunk))) {
    stdout._write = originalWrite;
    const builtins = [...process.moduleLoadList];
    require("node:v8").takeCoverage();
    const [file] = readdirSync(NODE_V8_COVERAGE);
    const { result } = JSON.parse(readFileSync(path.join(NODE_V8_COVERAGE, file), "utf8"));
    const urls = result.map(({ url }) => url).filter((url) => url.startsWith("file:"));
    writeFileSync(PROBE_OUT, JSON.stringify({ urls: [...new Set(urls)], builtins }));
  }
  return originalWrite.call(this, chunk, encoding, done);
};
