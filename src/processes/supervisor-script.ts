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
const [base, record, maxPartBytes, cwd, file, ...args] = process.argv.slice(1);
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => {});
const startupText = fs.readFileSync(0);
const readStatFields = (pid) => {
  const stat = fs.readFileSync("/proc/" + pid + "/stat", "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
};
const readStartTime = (pid) => Number(readStatFields(pid)[19]);
const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
let partNumber = 0;
let partBytes = 0;
let lostBytes = 0;
let outputFd = fs.openSync(base + ".0", "w", 0o600);
const inputFd = fs.openSync(base + ".in", "a+", 0o600);
const ownRecord = JSON.stringify({ ...JSON.parse(record), pid: process.pid, started: readStartTime(process.pid), boot });
fs.writeFileSync(base + ".tmp", ownRecord, { mode: 0o600 });
fs.renameSync(base + ".tmp", base + ".json");
// The command must survive errors of the supervisor from here on.
process.on("uncaughtException", () => {});
const writeStateFile = (name, value) => {
  try {
    fs.writeFileSync(base + name, value, { mode: 0o600 });
  } catch {}
};
const appendOutput = (chunk) => {
  for (let offset = 0; offset < chunk.length; ) {
    if (partBytes >= maxPartBytes) {
      const nextFd = fs.openSync(base + "." + (partNumber + 1), "w", 0o600);
      fs.closeSync(outputFd);
      outputFd = nextFd;
      partNumber += 1;
      partBytes = 0;
      if (partNumber > 3) fs.rmSync(base + "." + (partNumber - 3), { force: true });
    }
    const writtenBytes = fs.writeSync(outputFd, chunk, offset, Math.min(chunk.length - offset, maxPartBytes - partBytes));
    offset += writtenBytes;
    partBytes += writtenBytes;
  }
};
const write = (chunk) => {
  try {
    if (lostBytes > 0) appendOutput(Buffer.from("\\n[... " + lostBytes + " bytes could not be written ...]\\n"));
    lostBytes = 0;
    appendOutput(chunk);
  } catch {
    lostBytes += chunk.length;
  }
};
const hasOtherProcesses = () =>
  fs.readdirSync("/proc").some((pid) => {
    if (!/^[0-9]+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      const [state, , group] = readStatFields(pid);
      return Number(group) === process.pid && !"ZX".includes(state);
    } catch {
      return false;
    }
  });
let hasEnded = false;
const endGroup = (code, signal) => {
  if (hasEnded) return;
  hasEnded = true;
  writeStateFile(".end", JSON.stringify({ code, signal }));
  const startedMs = Date.now();
  process.kill(-process.pid, "SIGTERM");
  const killGroup = () => {
    if (Date.now() - startedMs > 2000 || !hasOtherProcesses()) process.kill(-process.pid, "SIGKILL");
    setTimeout(killGroup, 50);
  };
  killGroup();
};
const stdio = ["pipe", "pipe", "pipe", "ignore", startupText.length > 0 ? "pipe" : "ignore"];
const child = spawn(file, args, { cwd, stdio });
for (const stream of child.stdio) stream?.on("error", () => {});
if (startupText.length > 0) child.stdio[4].end(startupText);
child.stdout.on("data", write);
child.stderr.on("data", write);
child.once("error", (error) => {
  write(Buffer.from(error.message));
  endGroup(127, null);
});
child.once("exit", (code, signal) => {
  // The last output may still arrive; do not wait for other processes that hold the output open.
  child.once("close", () => endGroup(code, signal));
  setTimeout(endGroup, 250, code, signal);
});
try {
  writeStateFile(".child", JSON.stringify({ pid: child.pid, started: readStartTime(child.pid) }));
} catch {}
const chunk = Buffer.alloc(65536);
let inputOffset = 0;
let reportedBytes = 0;
const passInput = () => {
  let count = 0;
  while (!child.stdin.writableNeedDrain && (count = fs.readSync(inputFd, chunk, 0, chunk.length, inputOffset)) > 0) {
    child.stdin.write(Buffer.from(chunk.subarray(0, count)));
    inputOffset += count;
  }
  const readBytes = inputOffset - child.stdin.writableLength;
  if (readBytes !== reportedBytes) writeStateFile(".took", String((reportedBytes = readBytes)));
  if (count === 0 && !child.stdin.writableNeedDrain && fs.existsSync(base + ".eof")) child.stdin.end();
};
setInterval(passInput, 200);
`;
