/**
 * Script of the supervisor of a detached command: a Node process that leads the command's process group.
 *
 * - It records its identity before it starts the command, and then how the command ended.
 * - It passes on input that is appended to a file, as fast as the command reads.
 * - It writes the output to files of bounded size. On a full disk, output is lost and the command continues.
 * - After the command ends, it ends the remaining processes of the group: TERM, and KILL after at most 2 s.
 */
export const SUPERVISOR_SCRIPT = `
const fs = require("node:fs");
const { spawn } = require("node:child_process");
delete process.env.ELECTRON_RUN_AS_NODE;
const [base, record, part, cwd, file, ...args] = process.argv.slice(1);
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => {});
const startupText = fs.readFileSync(0);
const lineOf = (pid) => {
  const stat = fs.readFileSync("/proc/" + pid + "/stat", "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
};
const startOf = (pid) => Number(lineOf(pid)[19]);
const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
let number = 0;
let size = 0;
let lost = 0;
let out = fs.openSync(base + ".0", "w", 0o600);
const input = fs.openSync(base + ".in", "a+", 0o600);
const ownRecord = JSON.stringify({ ...JSON.parse(record), pid: process.pid, started: startOf(process.pid), boot });
fs.writeFileSync(base + ".tmp", ownRecord, { mode: 0o600 });
fs.renameSync(base + ".tmp", base + ".json");
// The command must survive errors of the supervisor from here on.
process.on("uncaughtException", () => {});
const note = (name, value) => {
  try {
    fs.writeFileSync(base + name, value, { mode: 0o600 });
  } catch {}
};
const add = (chunk) => {
  for (let at = 0; at < chunk.length; ) {
    if (size >= part) {
      const next = fs.openSync(base + "." + (number + 1), "w", 0o600);
      fs.closeSync(out);
      out = next;
      number += 1;
      size = 0;
      if (number > 3) fs.rmSync(base + "." + (number - 3), { force: true });
    }
    const written = fs.writeSync(out, chunk, at, Math.min(chunk.length - at, part - size));
    at += written;
    size += written;
  }
};
const write = (chunk) => {
  try {
    if (lost > 0) add(Buffer.from("\\n[... " + lost + " bytes could not be written ...]\\n"));
    lost = 0;
    add(chunk);
  } catch {
    lost += chunk.length;
  }
};
const others = () =>
  fs.readdirSync("/proc").some((pid) => {
    if (!/^[0-9]+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      const [state, , group] = lineOf(pid);
      return Number(group) === process.pid && !"ZX".includes(state);
    } catch {
      return false;
    }
  });
let ended = false;
const over = (code, signal) => {
  if (ended) return;
  ended = true;
  note(".end", JSON.stringify({ code, signal }));
  const since = Date.now();
  process.kill(-process.pid, "SIGTERM");
  const end = () => {
    if (Date.now() - since > 2000 || !others()) process.kill(-process.pid, "SIGKILL");
    setTimeout(end, 50);
  };
  end();
};
const stdio = ["pipe", "pipe", "pipe", "ignore", startupText.length > 0 ? "pipe" : "ignore"];
const child = spawn(file, args, { cwd, stdio });
for (const stream of child.stdio) stream?.on("error", () => {});
if (startupText.length > 0) child.stdio[4].end(startupText);
child.stdout.on("data", write);
child.stderr.on("data", write);
child.once("error", (error) => {
  write(Buffer.from(error.message));
  over(127, null);
});
child.once("exit", (code, signal) => {
  // The last output may still arrive; do not wait for other processes that hold the output open.
  child.once("close", () => over(code, signal));
  setTimeout(over, 250, code, signal);
});
try {
  note(".child", JSON.stringify({ pid: child.pid, started: startOf(child.pid) }));
} catch {}
const chunk = Buffer.alloc(65536);
let at = 0;
let reportedBytes = 0;
const look = () => {
  let count = 0;
  while (!child.stdin.writableNeedDrain && (count = fs.readSync(input, chunk, 0, chunk.length, at)) > 0) {
    child.stdin.write(Buffer.from(chunk.subarray(0, count)));
    at += count;
  }
  const readBytes = at - child.stdin.writableLength;
  if (readBytes !== reportedBytes) note(".took", String((reportedBytes = readBytes)));
  if (count === 0 && !child.stdin.writableNeedDrain && fs.existsSync(base + ".eof")) child.stdin.end();
};
setInterval(look, 200);
`;
