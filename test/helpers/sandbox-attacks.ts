/**
 * Tries to escape from the sandbox with real commands through the bash tool, as the current user. Arguments: an empty
 * folder of this user, and optionally one below /run. It prints `{ attacks, work }` as JSON. `attacks` has for each
 * attack whether the sandbox held, and the output. `work` has whether ordinary work succeeded.
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
import { callTool, toolContext } from "./tool-context.js";

const [base = "", run = ""] = process.argv.slice(2);
const at = (...parts: string[]) => join(base, ...parts);
const SECRET = "the-content-of-gantrys-own-home";

function put(path: string, content = ""): string {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const home = at("home");
const gantry = at("home", ".gantry");
const project = at("work", "project");
const shared = at("shared");
const config = put(at("home", "elsewhere", "gantry.json"), SECRET);
const store = put(at("shared", "data", "store.db"), SECRET);
for (const name of [
  ".bashrc",
  ".gradle/gradle.properties",
  ".bun/bin/bun",
  ".m2/settings.xml",
  ".npm/_npx/x",
  ".cargo/bin/x",
])
  put(join(home, name), "as it was");
put(join(gantry, "config.json"), SECRET);
put(join(project, "package.json"), '{"name":"p","version":"1.0.0","scripts":{"test":"node --test"}}');
put(join(project, "a.test.js"), 'require("node:test")("works", () => {});');
mkdirSync(join(project, "inner"));
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: home };
const git = (...args: string[]) =>
  execFileSync("git", args, {
    cwd: project,
    env: { ...env, GIT_CONFIG_NOSYSTEM: "1" },
    stdio: ["ignore", "pipe", "ignore"],
  }).toString();
git("init", "-q", "-b", "main");
git("config", "user.email", "a@b.c");
git("config", "user.name", "A");
git("config", "core.hooksPath", ".husky");
put(join(project, ".husky", "pre-commit"), "#!/bin/sh\nexit 0\n");
put(join(project, ".git", "hooks", "post-commit.sample"), "");
put(join(project, ".git", "modules", "sub", "HEAD"), "ref: refs/heads/main\n");
put(join(project, ".git", "modules", "sub", "config"), "[core]\n");
rmSync(join(project, ".git", "modules", "sub", "hooks"), { recursive: true, force: true });
git("add", ".");
git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "first");

const gitFile = (...names: string[]) => join(project, ".git", ...names);
const settings = readFileSync(gitFile("config"), "utf8");
let identity = lstatSync(gitFile()).ino;
const PARTS = ["home", "work", "shared"];
for (const part of PARTS) cpSync(at(part), at("kept", part), { recursive: true, verbatimSymlinks: true });

let heard = 0;
const servers: Server[] = [];
async function listen(where: string | number): Promise<string> {
  const server =
    typeof where === "number" ? createServer((_request, response) => response.end("hello")) : createSocket();
  server.on("connection", (socket: { on(event: "error", listener: () => void): void; end(text?: string): void }) => {
    heard++;
    socket.on("error", () => undefined);
    if (typeof where === "string") socket.end("hello");
  });
  await new Promise<void>((resolve, reject) => {
    server.on("error", reject);
    if (typeof where === "number") server.listen(where, "127.0.0.1", resolve);
    else server.listen(where, resolve);
  });
  servers.push(server);
  const address = server.address();
  return typeof address === "object" && address !== null ? String(address.port) : String(where);
}

const scratchPath = join(gantry, "tmp");
const bash = builtinTools({
  env,
  allowPaths: [shared, join(project, "inner")],
  deniedPaths: [gantry, config, store, `${store}-wal`, `${store}-shm`],
  bash: { sandbox: "required", scratchPath },
}).find(({ name }) => name === "bash")!;

async function sh(command: string, projectDir = project): Promise<{ text: string; failed: boolean }> {
  try {
    const { text, failed } = await callTool(bash, { command }, toolContext(projectDir));
    return { text, failed: failed === true };
  } catch (error) {
    return { text: `refused: ${(error as Error).message}`, failed: true };
  }
}

const attacks: Record<string, { held: boolean; output: string }> = {};
async function attack(
  name: string,
  command: string,
  held: (output: string) => boolean,
  projectDir = project,
): Promise<void> {
  const { text } = await sh(command, projectDir);
  let well = false;
  try {
    well = held(text);
  } catch {
    // A file that must exist is missing.
  }
  attacks[name] = { held: well, output: text.slice(-600) };
  if (well) return;
  // Restores what the attack broke, so that it does not affect the others.
  if (lstatSync(base).isSymbolicLink()) return;
  for (const part of PARTS) rmSync(at(part), { recursive: true, force: true });
  for (const part of PARTS) cpSync(at("kept", part), at(part), { recursive: true, verbatimSymlinks: true });
  identity = lstatSync(gitFile()).ino;
}

const same =
  (path: string, content = "as it was") =>
  () =>
    existsSync(path) && readFileSync(path, "utf8") === content;
const silent = (output: string) => !output.includes(SECRET);
const unheard = () => {
  const before = heard;
  heard = 0;
  return before === 0;
};
/** Uses node, because other clients may not be installed. */
const dial = (path: string) =>
  `node -e 'require("net").connect(process.argv[1].replace("@","\\0")).on("data", d => console.log(String(d))).on("error", e => console.log(e.code))' '${path}'`;

// The hidden home and its mounts.
const hiddenConfig = join(gantry, "config.json");
await attack("read the hidden home", `cat ${hiddenConfig}`, silent);
await attack("umount the hidden home", `umount ${gantry}; umount -l ${gantry}; cat ${hiddenConfig}`, silent);
await attack(
  "remount the disk for writing",
  `mount -o remount,rw,bind / ; mount -o remount,rw,bind ${home}; echo evil > ${home}/.bashrc`,
  same(join(home, ".bashrc")),
);
await attack(
  "mount the home elsewhere",
  `mkdir -p m; mount --bind ${home} m; mount --rbind / m; cat m/.gantry/config.json m${hiddenConfig}; echo evil > m/.bashrc`,
  (output) => silent(output) && same(join(home, ".bashrc"))(),
);
await attack(
  "hold a capability",
  "grep -E '^Cap(Eff|Prm|Bnd|Amb)' /proc/self/status",
  (output) => (output.match(/\t0000000000000000/g) ?? []).length === 4,
);
await attack("make a user namespace", "unshare -Ur true && echo MADE", (output) => !output.includes("MADE"));
await attack(
  "umount within a user namespace",
  `unshare -Urm sh -c 'umount ${gantry}; mount --bind / /mnt; cat ${hiddenConfig} /mnt${hiddenConfig}'`,
  silent,
);
await attack(
  "enter the namespaces of the first process",
  `nsenter -t 1 -m -U cat ${hiddenConfig}; nsenter -t 1 -a cat ${hiddenConfig}`,
  silent,
);
await attack("go by the root of another process", `for p in /proc/[0-9]*; do cat $p/root${hiddenConfig}; done`, silent);
await attack(
  "see the server's process",
  `ls -d /proc/${process.pid} && tr '\\0' '\\n' < /proc/${process.pid}/environ`,
  (output) => output.includes("No such file"),
);
await attack(
  "make a device of the disk",
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
  unheard,
);
const sockets = {
  "talk to a socket below /tmp": at("tmux-0-default"),
  "talk to a socket in the home folder": join(home, "S.gpg-agent"),
  "talk to a socket in the project": join(project, "docker.sock"),
  "talk to a socket without a file": `\0gantry-${process.pid}`,
  ...(run === "" ? {} : { "talk to a socket below /run": join(run, "docker.sock") }),
};
for (const [name, path] of Object.entries(sockets)) {
  await listen(path);
  const { text } = await sh(dial(path.replace("\0", "@")));
  attacks[name] = { held: unheard(), output: text };
}

// Settings of git.
const gitHeld = () =>
  lstatSync(gitFile()).ino === identity &&
  readFileSync(gitFile("config"), "utf8") === settings &&
  readFileSync(gitFile("modules", "sub", "config"), "utf8") === "[core]\n" &&
  readdirSync(gitFile("hooks")).every((name) => name.endsWith(".sample")) &&
  readdirSync(gitFile("modules", "sub", "hooks")).length === 0 &&
  !existsSync(gitFile("commondir")) &&
  !existsSync(gitFile("config.worktree")) &&
  readFileSync(join(project, ".husky", "pre-commit"), "utf8") === "#!/bin/sh\nexit 0\n" &&
  readdirSync(join(project, ".husky")).length === 1;
await attack(
  "change git's settings",
  "git config core.fsmonitor 'touch /tmp/x'; echo '[core] fsmonitor = x' >> .git/config; rm -f .git/config; cp /etc/hostname .git/config",
  gitHeld,
);
await attack(
  "put other settings in their place",
  "cp .git/config c; echo '[alias] x = !x' >> c; mv -f c .git/config; ln -sf ../c .git/config; rm -f c",
  gitHeld,
);
await attack(
  "put another repository in its place",
  "mv .git .g && cp -r .g .git; rm -rf .git/config; rm -rf .g",
  gitHeld,
);
await attack(
  "add a hook",
  "echo 'touch pwned' > .git/hooks/pre-commit; rm -rf .git/hooks; mv .git/hooks .git/h; mkdir -p .git/hooks; ln -s /tmp .git/hooks/x",
  gitHeld,
);
await attack(
  "add a hook among the project's own",
  "echo 'touch pwned' > .husky/pre-commit; echo x > .husky/post-commit; mv .husky h && mkdir .husky && echo x > .husky/pre-commit",
  gitHeld,
);
await attack(
  "change settings and hooks of a submodule",
  "echo x >> .git/modules/sub/config; mkdir -p .git/modules/sub/hooks; echo x > .git/modules/sub/hooks/pre-commit; mv .git/modules m && cp -r m .git/modules && echo x >> .git/modules/sub/config; rm -rf m",
  gitHeld,
);
await attack(
  "point git elsewhere",
  "mkdir -p e; cp .git/config e; echo '[core] fsmonitor=x' >> e/config; echo ../e > .git/commondir; echo x > .git/config.worktree; rm -rf e",
  gitHeld,
);

// The rest of the home folder, and hidden files outside it.
for (const name of [
  ".bashrc",
  ".gradle/gradle.properties",
  ".bun/bin/bun",
  ".m2/settings.xml",
  ".npm/_npx/x",
  ".cargo/bin/x",
])
  await attack(`write to ~/${name}`, `echo evil > ${home}/${name}; rm -f ${home}/${name}`, same(join(home, name)));
await attack(
  "add to what starts by itself",
  `for d in .gradle/init.d .config/autostart .bun/bin .m2/x; do mkdir -p ${home}/$d && echo x > ${home}/$d/x; done`,
  () => [".gradle/init.d", ".config", ".bun/bin/x", ".m2/x"].every((name) => !existsSync(join(home, name))),
);
await attack("read a config elsewhere", `cat ${config}; cat ${home}/elsewhere/*`, silent);
await attack("change a config elsewhere", `echo evil > ${config}; rm -f ${config}`, same(config, SECRET));
await attack("read a store elsewhere", `cat ${store}; cp ${store} s && cat s`, silent);
await attack(
  "move a store that lies in a writable folder",
  `mv ${shared}/data ${shared}/d && mkdir ${shared}/data && echo evil > ${store}; cat ${shared}/d/store.db`,
  (output) => silent(output) && same(store, SECRET)(),
);

// Writable roots.
function putBack(path: string, aside: string): void {
  if (!existsSync(aside)) return;
  rmSync(path, { recursive: true, force: true });
  renameSync(aside, path);
}
await attack(
  "put a link in a root's place",
  `rm -rf inner; mv inner i; ln -s ${home} inner; rmdir inner; ls -ld inner`,
  () => lstatSync(join(project, "inner")).isDirectory(),
);
rmSync(join(project, "aside"), { recursive: true, force: true });
renameSync(join(project, "inner"), join(project, "aside"));
symlinkSync(home, join(project, "inner"));
await attack(
  "write through a root that became a link",
  "echo evil > inner/.bashrc; ls inner",
  same(join(home, ".bashrc")),
);
putBack(join(project, "inner"), join(project, "aside"));
renameSync(project, at("work", "aside"));
symlinkSync(home, project);
await attack(
  "write through a project folder that became a link",
  "pwd; echo evil > .bashrc",
  same(join(home, ".bashrc")),
);
putBack(project, at("work", "aside"));
mkdirSync(join(project, "sub"));
await sh("rmdir sub; ln -s ../../home sub");
await attack(
  "write in a session whose folder a command made a link",
  "pwd; echo evil > .bashrc",
  same(join(home, ".bashrc")),
  join(project, "sub"),
);
rmSync(join(project, "sub"), { force: true });
await attack(
  "open the whole disk as a project",
  `echo evil > ${home}/.bashrc; cat ${hiddenConfig}`,
  (output) => silent(output) && same(join(home, ".bashrc"))(),
  "/",
);
await attack(
  "start with the home folder as a project",
  "echo evil > .bashrc; mv .bashrc b; echo evil > .gradle/gradle.properties; cat .gantry/config.json",
  (output) => silent(output) && same(join(home, ".bashrc"))() && same(join(home, ".gradle/gradle.properties"))(),
  home,
);
const work: Record<string, { well: boolean; output: string }> = {};
async function ordinary(name: string, command: string, well: (output: string) => boolean = () => true): Promise<void> {
  const { text, failed } = await sh(command);
  work[name] = { well: !failed && well(text), output: text.slice(-600) };
}
await ordinary(
  "write in the project",
  "echo hi > new.txt && mkdir -p d/e && mv new.txt d/e/ && rm -r d && echo x > b.txt",
  () => existsSync(join(project, "b.txt")),
);
await ordinary("write to allow_paths", `echo hi > ${shared}/new`, () => existsSync(join(shared, "new")));
await ordinary(
  "git status, add, commit",
  "git status --short && git add -A . && git commit -q -m second && git log --oneline",
  (output) => /second/.test(output),
);
await ordinary(
  "git branch, checkout, stash, merge, gc",
  "git checkout -q -b topic && echo y > y.txt && git add y.txt && git commit -q -m third && git checkout -q main && git merge -q topic && echo z >> y.txt && git stash -q && git stash pop -q && git checkout y.txt && git gc -q && git fsck",
);
await ordinary("npm test", "npm test 2>&1", (output) => /pass 1/.test(output));
await ordinary("node --test", "node --test 2>&1", (output) => /pass 1/.test(output));
await ordinary(
  "a server of its own on loopback",
  `node -e 'const s=require("http").createServer((q,r)=>r.end("own")).listen(0,"127.0.0.1",()=>fetch("http://127.0.0.1:"+s.address().port).then(r=>r.text()).then(t=>{console.log(t);s.close()}))'`,
  (output) => output.startsWith("own"),
);
await ordinary(
  "a socket of its own in /tmp",
  `node -e 'const n=require("net");const s=n.createServer(c=>c.end("own")).listen("/tmp/s.sock",()=>n.connect("/tmp/s.sock").on("data",d=>{console.log(String(d));s.close()}))'`,
  (output) => output.startsWith("own"),
);
await sh("echo kept > /tmp/kept; mktemp >/dev/null");
await ordinary("what it put in /tmp in the next call", "cat /tmp/kept && mktemp", (output) =>
  output.startsWith("kept"),
);
await ordinary(
  "a new repository",
  "mkdir r && cd r && git init -q && git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x && git log --oneline && rm -rf ../r",
);
const outside = ((): string => {
  try {
    return git("status", "--short");
  } catch (error) {
    return String(error);
  }
})();
work["git outside afterwards"] = { well: outside === "", output: outside };

// Runs last, because a successful attack leaves nothing to continue with.
await attack(
  "lead the sandbox's own temporary folder out",
  `ls -d ${base}; mv ${base} ${base}2; ln -s ${home} ${base}; ln -s ${home} /tmp/x; ls -la /tmp`,
  () => lstatSync(project).isDirectory(),
);

for (const server of servers) server.close();
process.stdout.write(JSON.stringify({ attacks, work }));
