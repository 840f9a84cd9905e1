/**
 * Tries to escape from the sandbox with real commands through the bash tool, as the current user. Arguments: an empty
 * folder of this user, and optionally one below /run. Prints `{ attacks, work }` as JSON. `attacks` has for each
 * attack whether the sandbox prevented it (`held`), and the output. `work` has whether ordinary work succeeded (`well`).
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocket, type Server } from "node:net";
import { join } from "node:path";
import { builtinTools } from "gantry";
import { callTool, createToolContext } from "./tool-context.js";

const [baseFolder = "", runFolder = ""] = process.argv.slice(2);
const toBasePath = (...parts: string[]) => join(baseFolder, ...parts);
const SECRET = "the-content-of-gantrys-own-home";

function writeTextFile(path: string, content = ""): string {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const homeFolder = toBasePath("home");
const gantryHome = toBasePath("home", ".gantry");
const projectFolder = toBasePath("work", "project");
const sharedFolder = toBasePath("shared");
const configFile = writeTextFile(toBasePath("home", "elsewhere", "gantry.json"), SECRET);
const storeFile = writeTextFile(toBasePath("shared", "data", "store.db"), SECRET);
for (const name of [
  ".bashrc",
  ".gradle/gradle.properties",
  ".bun/bin/bun",
  ".m2/settings.xml",
  ".npm/_npx/x",
  ".cargo/bin/x",
])
  writeTextFile(join(homeFolder, name), "as it was");
writeTextFile(join(gantryHome, "config.json"), SECRET);
writeTextFile(join(projectFolder, "package.json"), '{"name":"p","version":"1.0.0","scripts":{"test":"node --test"}}');
writeTextFile(join(projectFolder, "a.test.js"), 'require("node:test")("works", () => {});');
mkdirSync(join(projectFolder, "inner"));
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: homeFolder };
const runGit = (...args: string[]) =>
  execFileSync("git", args, {
    cwd: projectFolder,
    env: { ...env, GIT_CONFIG_NOSYSTEM: "1" },
    stdio: ["ignore", "pipe", "ignore"],
  }).toString();
runGit("init", "-q", "-b", "main");
runGit("config", "user.email", "a@b.c");
runGit("config", "user.name", "A");
runGit("config", "core.hooksPath", ".husky");
writeTextFile(join(projectFolder, ".husky", "pre-commit"), "#!/bin/sh\nexit 0\n");
writeTextFile(join(projectFolder, ".git", "hooks", "post-commit.sample"), "");
writeTextFile(join(projectFolder, ".git", "modules", "sub", "HEAD"), "ref: refs/heads/main\n");
writeTextFile(join(projectFolder, ".git", "modules", "sub", "config"), "[core]\n");
rmSync(join(projectFolder, ".git", "modules", "sub", "hooks"), { recursive: true, force: true });
runGit("add", ".");
runGit("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "first");

const getGitPath = (...names: string[]) => join(projectFolder, ".git", ...names);
const gitSettings = readFileSync(getGitPath("config"), "utf8");
let gitInode = lstatSync(getGitPath()).ino;
/** Folders that are restored from a copy after a successful attack. */
const COPIED_FOLDERS = ["home", "work", "shared"];
for (const folderName of COPIED_FOLDERS)
  cpSync(toBasePath(folderName), toBasePath("kept", folderName), { recursive: true, verbatimSymlinks: true });

let connectionCount = 0;
const servers: Server[] = [];
async function listen(target: string | number): Promise<string> {
  const server =
    typeof target === "number" ? createServer((_request, response) => response.end("hello")) : createSocket();
  server.on("connection", (socket: { on(event: "error", listener: () => void): void; end(text?: string): void }) => {
    connectionCount++;
    socket.on("error", () => undefined);
    if (typeof target === "string") socket.end("hello");
  });
  await new Promise<void>((resolve, reject) => {
    server.on("error", reject);
    if (typeof target === "number") server.listen(target, "127.0.0.1", resolve);
    else server.listen(target, resolve);
  });
  servers.push(server);
  const address = server.address();
  return typeof address === "object" && address !== null ? String(address.port) : String(target);
}

const scratchPath = join(gantryHome, "tmp");
const bash = builtinTools({
  env,
  allowPaths: [sharedFolder, join(projectFolder, "inner")],
  deniedPaths: [gantryHome, configFile, storeFile, `${storeFile}-wal`, `${storeFile}-shm`],
  bash: { sandbox: "required", scratchPath },
}).find(({ name }) => name === "bash")!;

async function runCommand(command: string, projectDir = projectFolder): Promise<{ text: string; failed: boolean }> {
  try {
    const { text, failed } = await callTool(bash, { command }, createToolContext(projectDir));
    return { text, failed: failed === true };
  } catch (error) {
    return { text: `refused: ${(error as Error).message}`, failed: true };
  }
}

const attacks: Record<string, { held: boolean; output: string }> = {};
async function attack(
  name: string,
  command: string,
  isPrevented: (output: string) => boolean,
  projectDir = projectFolder,
): Promise<void> {
  const { text } = await runCommand(command, projectDir);
  let wasPrevented = false;
  try {
    wasPrevented = isPrevented(text);
  } catch {
    // A file that must exist is missing.
  }
  attacks[name] = { held: wasPrevented, output: text.slice(-600) };
  if (wasPrevented) return;
  // Restores the files that the attack changed, so that this attack does not affect the next one.
  if (lstatSync(baseFolder).isSymbolicLink()) return;
  for (const folderName of COPIED_FOLDERS) rmSync(toBasePath(folderName), { recursive: true, force: true });
  for (const folderName of COPIED_FOLDERS)
    cpSync(toBasePath("kept", folderName), toBasePath(folderName), { recursive: true, verbatimSymlinks: true });
  gitInode = lstatSync(getGitPath()).ino;
}

const hasContent =
  (path: string, content = "as it was") =>
  () =>
    existsSync(path) && readFileSync(path, "utf8") === content;
const hidesSecret = (output: string) => !output.includes(SECRET);
const hasNoConnection = () => {
  const previousCount = connectionCount;
  connectionCount = 0;
  return previousCount === 0;
};
/** A command that connects to a socket. Uses node, because other clients may not be installed. */
const createDialCommand = (path: string) =>
  `node -e 'require("net").connect(process.argv[1].replace("@","\\0")).on("data", d => console.log(String(d))).on("error", e => console.log(e.code))' '${path}'`;

// The hidden home and its mounts.
const hiddenConfig = join(gantryHome, "config.json");
await attack("read the hidden home", `cat ${hiddenConfig}`, hidesSecret);
await attack(
  "umount the hidden home",
  `umount ${gantryHome}; umount -l ${gantryHome}; cat ${hiddenConfig}`,
  hidesSecret,
);
await attack(
  "remount the disk for writing",
  `mount -o remount,rw,bind / ; mount -o remount,rw,bind ${homeFolder}; echo evil > ${homeFolder}/.bashrc`,
  hasContent(join(homeFolder, ".bashrc")),
);
await attack(
  "mount the home folder at another path",
  `mkdir -p m; mount --bind ${homeFolder} m; mount --rbind / m; cat m/.gantry/config.json m${hiddenConfig}; echo evil > m/.bashrc`,
  (output) => hidesSecret(output) && hasContent(join(homeFolder, ".bashrc"))(),
);
await attack(
  "have a capability",
  "grep -E '^Cap(Eff|Prm|Bnd|Amb)' /proc/self/status",
  (output) => (output.match(/\t0000000000000000/g) ?? []).length === 4,
);
await attack("create a user namespace", "unshare -Ur true && echo MADE", (output) => !output.includes("MADE"));
await attack(
  "umount within a user namespace",
  `unshare -Urm sh -c 'umount ${gantryHome}; mount --bind / /mnt; cat ${hiddenConfig} /mnt${hiddenConfig}'`,
  hidesSecret,
);
await attack(
  "enter the namespaces of the first process",
  `nsenter -t 1 -m -U cat ${hiddenConfig}; nsenter -t 1 -a cat ${hiddenConfig}`,
  hidesSecret,
);
await attack(
  "read through the root of another process",
  `for p in /proc/[0-9]*; do cat $p/root${hiddenConfig}; done`,
  hidesSecret,
);
await attack(
  "see the server's process",
  `ls -d /proc/${process.pid} && tr '\\0' '\\n' < /proc/${process.pid}/environ`,
  (output) => output.includes("No such file"),
);
await attack(
  "create a device file of the disk",
  "for n in 254:0 253:0 8:0 8:1 259:0; do mknod d b ${n%:*} ${n#*:} && head -c 1 d >/dev/null && echo OPENED; rm -f d; done",
  (output) => !output.includes("OPENED"),
);
await attack(
  "write to the kernel's settings",
  'f=/proc/sys/kernel/core_pattern; v=$(cat $f); echo "$v" > $f && echo WROTE; f=/proc/sys/vm/swappiness; v=$(cat $f); echo "$v" > $f && echo WROTE; ls /sys/fs/cgroup | head -1; mkdir /sys/fs/cgroup/gantry-test && rmdir /sys/fs/cgroup/gantry-test && echo WROTE',
  (output) => !output.includes("WROTE"),
);

// Listening ports and sockets.
const port = await listen(0);
await attack(
  "reach the server's own port",
  `exec 3<>/dev/tcp/127.0.0.1/${port} && printf 'GET /api/health HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3; node -e 'fetch("http://127.0.0.1:${port}/").then(r=>r.text()).then(console.log, e=>console.log(e.cause.code))'`,
  hasNoConnection,
);
const sockets = {
  "connect to a socket below /tmp": toBasePath("tmux-0-default"),
  "connect to a socket in the home folder": join(homeFolder, "S.gpg-agent"),
  "connect to a socket in the project": join(projectFolder, "docker.sock"),
  "connect to a socket without a file": `\0gantry-${process.pid}`,
  ...(runFolder === "" ? {} : { "connect to a socket below /run": join(runFolder, "docker.sock") }),
};
for (const [name, path] of Object.entries(sockets)) {
  await listen(path);
  const { text } = await runCommand(createDialCommand(path.replace("\0", "@")));
  attacks[name] = { held: hasNoConnection(), output: text };
}

// Settings of git.
const isGitUnchanged = () =>
  lstatSync(getGitPath()).ino === gitInode &&
  readFileSync(getGitPath("config"), "utf8") === gitSettings &&
  readFileSync(getGitPath("modules", "sub", "config"), "utf8") === "[core]\n" &&
  readdirSync(getGitPath("hooks")).every((name) => name.endsWith(".sample")) &&
  readdirSync(getGitPath("modules", "sub", "hooks")).length === 0 &&
  !existsSync(getGitPath("commondir")) &&
  !existsSync(getGitPath("config.worktree")) &&
  readFileSync(join(projectFolder, ".husky", "pre-commit"), "utf8") === "#!/bin/sh\nexit 0\n" &&
  readdirSync(join(projectFolder, ".husky")).length === 1;
await attack(
  "change git's settings",
  "git config core.fsmonitor 'touch /tmp/x'; echo '[core] fsmonitor = x' >> .git/config; rm -f .git/config; cp /etc/hostname .git/config",
  isGitUnchanged,
);
await attack(
  "replace git's settings",
  "cp .git/config c; echo '[alias] x = !x' >> c; mv -f c .git/config; ln -sf ../c .git/config; rm -f c",
  isGitUnchanged,
);
await attack("replace the repository", "mv .git .g && cp -r .g .git; rm -rf .git/config; rm -rf .g", isGitUnchanged);
await attack(
  "add a hook",
  "echo 'touch pwned' > .git/hooks/pre-commit; rm -rf .git/hooks; mv .git/hooks .git/h; mkdir -p .git/hooks; ln -s /tmp .git/hooks/x",
  isGitUnchanged,
);
await attack(
  "add a hook to the project's hooks folder",
  "echo 'touch pwned' > .husky/pre-commit; echo x > .husky/post-commit; mv .husky h && mkdir .husky && echo x > .husky/pre-commit",
  isGitUnchanged,
);
await attack(
  "change settings and hooks of a submodule",
  "echo x >> .git/modules/sub/config; mkdir -p .git/modules/sub/hooks; echo x > .git/modules/sub/hooks/pre-commit; mv .git/modules m && cp -r m .git/modules && echo x >> .git/modules/sub/config; rm -rf m",
  isGitUnchanged,
);
await attack(
  "point git to another folder",
  "mkdir -p e; cp .git/config e; echo '[core] fsmonitor=x' >> e/config; echo ../e > .git/commondir; echo x > .git/config.worktree; rm -rf e",
  isGitUnchanged,
);

// Other files of the home folder, and hidden files outside it.
for (const name of [
  ".bashrc",
  ".gradle/gradle.properties",
  ".bun/bin/bun",
  ".m2/settings.xml",
  ".npm/_npx/x",
  ".cargo/bin/x",
])
  await attack(
    `write to ~/${name}`,
    `echo evil > ${homeFolder}/${name}; rm -f ${homeFolder}/${name}`,
    hasContent(join(homeFolder, name)),
  );
await attack(
  "add files that start automatically",
  `for d in .gradle/init.d .config/autostart .bun/bin .m2/x; do mkdir -p ${homeFolder}/$d && echo x > ${homeFolder}/$d/x; done`,
  () => [".gradle/init.d", ".config", ".bun/bin/x", ".m2/x"].every((name) => !existsSync(join(homeFolder, name))),
);
await attack("read a config in another folder", `cat ${configFile}; cat ${homeFolder}/elsewhere/*`, hidesSecret);
await attack(
  "change a config in another folder",
  `echo evil > ${configFile}; rm -f ${configFile}`,
  hasContent(configFile, SECRET),
);
await attack("read a store in another folder", `cat ${storeFile}; cp ${storeFile} s && cat s`, hidesSecret);
await attack(
  "move a store in a writable folder",
  `mv ${sharedFolder}/data ${sharedFolder}/d && mkdir ${sharedFolder}/data && echo evil > ${storeFile}; cat ${sharedFolder}/d/store.db`,
  (output) => hidesSecret(output) && hasContent(storeFile, SECRET)(),
);

// Writable roots.
function restoreFolder(path: string, movedPath: string): void {
  if (!existsSync(movedPath)) return;
  rmSync(path, { recursive: true, force: true });
  renameSync(movedPath, path);
}
await attack(
  "replace a writable root by a link",
  `rm -rf inner; mv inner i; ln -s ${homeFolder} inner; rmdir inner; ls -ld inner`,
  () => lstatSync(join(projectFolder, "inner")).isDirectory(),
);
rmSync(join(projectFolder, "aside"), { recursive: true, force: true });
renameSync(join(projectFolder, "inner"), join(projectFolder, "aside"));
symlinkSync(homeFolder, join(projectFolder, "inner"));
await attack(
  "write through a root that was replaced by a link",
  "echo evil > inner/.bashrc; ls inner",
  hasContent(join(homeFolder, ".bashrc")),
);
restoreFolder(join(projectFolder, "inner"), join(projectFolder, "aside"));
renameSync(projectFolder, toBasePath("work", "aside"));
symlinkSync(homeFolder, projectFolder);
await attack(
  "write through a project folder that was replaced by a link",
  "pwd; echo evil > .bashrc",
  hasContent(join(homeFolder, ".bashrc")),
);
restoreFolder(projectFolder, toBasePath("work", "aside"));
mkdirSync(join(projectFolder, "sub"));
await runCommand("rmdir sub; ln -s ../../home sub");
await attack(
  "write in a session whose folder a command replaced by a link",
  "pwd; echo evil > .bashrc",
  hasContent(join(homeFolder, ".bashrc")),
  join(projectFolder, "sub"),
);
rmSync(join(projectFolder, "sub"), { force: true });
await attack(
  "open the whole disk as a project",
  `echo evil > ${homeFolder}/.bashrc; cat ${hiddenConfig}`,
  (output) => hidesSecret(output) && hasContent(join(homeFolder, ".bashrc"))(),
  "/",
);
await attack(
  "start with the home folder as a project",
  "echo evil > .bashrc; mv .bashrc b; echo evil > .gradle/gradle.properties; cat .gantry/config.json",
  (output) =>
    hidesSecret(output) &&
    hasContent(join(homeFolder, ".bashrc"))() &&
    hasContent(join(homeFolder, ".gradle/gradle.properties"))(),
  homeFolder,
);
const work: Record<string, { well: boolean; output: string }> = {};
async function runOrdinaryWork(
  name: string,
  command: string,
  isExpected: (output: string) => boolean = () => true,
): Promise<void> {
  const { text, failed } = await runCommand(command);
  work[name] = { well: !failed && isExpected(text), output: text.slice(-600) };
}
await runOrdinaryWork(
  "write in the project",
  "echo hi > new.txt && mkdir -p d/e && mv new.txt d/e/ && rm -r d && echo x > b.txt",
  () => existsSync(join(projectFolder, "b.txt")),
);
await runOrdinaryWork("write to allow_paths", `echo hi > ${sharedFolder}/new`, () =>
  existsSync(join(sharedFolder, "new")),
);
await runOrdinaryWork(
  "git status, add, commit",
  "git status --short && git add -A . && git commit -q -m second && git log --oneline",
  (output) => /second/.test(output),
);
await runOrdinaryWork(
  "git branch, checkout, stash, merge, gc",
  "git checkout -q -b topic && echo y > y.txt && git add y.txt && git commit -q -m third && git checkout -q main && git merge -q topic && echo z >> y.txt && git stash -q && git stash pop -q && git checkout y.txt && git gc -q && git fsck",
);
await runOrdinaryWork("npm test", "npm test 2>&1", (output) => /pass 1/.test(output));
await runOrdinaryWork("node --test", "node --test 2>&1", (output) => /pass 1/.test(output));
await runOrdinaryWork(
  "start a server on loopback",
  `node -e 'const s=require("http").createServer((q,r)=>r.end("own")).listen(0,"127.0.0.1",()=>fetch("http://127.0.0.1:"+s.address().port).then(r=>r.text()).then(t=>{console.log(t);s.close()}))'`,
  (output) => output.startsWith("own"),
);
await runOrdinaryWork(
  "open a socket in /tmp",
  `node -e 'const n=require("net");const s=n.createServer(c=>c.end("own")).listen("/tmp/s.sock",()=>n.connect("/tmp/s.sock").on("data",d=>{console.log(String(d));s.close()}))'`,
  (output) => output.startsWith("own"),
);
await runCommand("echo kept > /tmp/kept; mktemp >/dev/null");
await runOrdinaryWork("read a file in /tmp that an earlier call wrote", "cat /tmp/kept && mktemp", (output) =>
  output.startsWith("kept"),
);
await runOrdinaryWork(
  "create a repository",
  "mkdir r && cd r && git init -q && git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x && git log --oneline && rm -rf ../r",
);
const outsideStatus = ((): string => {
  try {
    return runGit("status", "--short");
  } catch (error) {
    return String(error);
  }
})();
work["git status outside the sandbox after the attacks"] = { well: outsideStatus === "", output: outsideStatus };

// Runs last, because a successful attack leaves nothing to continue with.
await attack(
  "redirect the sandbox's temporary folder to the home folder",
  `ls -d ${baseFolder}; mv ${baseFolder} ${baseFolder}2; ln -s ${homeFolder} ${baseFolder}; ln -s ${homeFolder} /tmp/x; ls -la /tmp`,
  () => lstatSync(projectFolder).isDirectory(),
);

for (const server of servers) server.close();
process.stdout.write(JSON.stringify({ attacks, work }));
