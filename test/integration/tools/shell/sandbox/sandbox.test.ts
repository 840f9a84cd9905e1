import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import {
  chmod,
  chown,
  mkdtemp,
  readdir,
  realpath,
  rm,
  writeFile,
  mkdir,
  symlink,
  rename,
  readFile,
  stat,
} from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { builtinTools } from "gantry";
import type { BuiltinToolsOptions } from "gantry";
import { findBubblewrap } from "../../../../../src/tools/shell/sandbox/bubblewrap.js";
import { MountPlan } from "../../../../../src/tools/shell/sandbox/mount-plan.js";
import { Sandbox } from "../../../../../src/tools/shell/sandbox/sandbox.js";
import { SOURCE_FLAGS, sourcePath } from "../../../../helpers/source-paths.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../../../helpers/tool-context.js";

const execFileAsync = promisify(execFile);
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: false });
const ATTACK_SCRIPT = sourcePath("test/helpers/sandbox-attacks.ts");
const NOBODY_UID = 65_534;

interface Outcome {
  attacks: Record<string, { held: boolean; output: string }>;
  work: Record<string, { well: boolean; output: string }>;
}

/** Runs all attacks as the user with this id. `held`: the sandbox blocked the attack. `well`: the work succeeded. */
async function runAttacksAs(uid: number): Promise<Outcome> {
  // Another user cannot enter the temporary folder of a test run.
  const homeFolder = await realpath(await mkdtemp(join(uid === NOBODY_UID ? "/tmp" : tmpdir(), "gantry-sandbox-")));
  const runtimeFolder = process.getuid?.() === 0 ? await mkdtemp("/run/gantry-sandbox-") : "";
  try {
    for (const path of [homeFolder, runtimeFolder]) if (path !== "") await chown(path, uid, uid);
    const setprivPrefix = uid === NOBODY_UID ? ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"] : [];
    const command = [...setprivPrefix, process.execPath, ...SOURCE_FLAGS, ATTACK_SCRIPT, homeFolder, runtimeFolder];
    const [file = "", ...args] = command;
    const childOptions = { env: { PATH: env.PATH, HOME: homeFolder, TMPDIR: homeFolder }, maxBuffer: 16 * 1024 * 1024 };
    return JSON.parse((await execFileAsync(file, args, childOptions)).stdout) as Outcome;
  } finally {
    await rm(homeFolder, { recursive: true, force: true });
    if (runtimeFolder !== "") await rm(runtimeFolder, { recursive: true, force: true });
  }
}

/** Returns the reason why no command can run as another user. Undefined: a command can. */
async function findOtherUserSkipReason(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "only root can run as another user";
  const readScript = `require("fs").readFileSync(${JSON.stringify(ATTACK_SCRIPT)})`;
  return execFileAsync("setpriv", [
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    process.execPath,
    "-e",
    readScript,
  ]).then(
    () => undefined,
    () => "the user nobody cannot read the sources",
  );
}

function createBash(options: BuiltinToolsOptions = {}) {
  const tool = builtinTools({ env, ...options, bash: { sandbox: "required", ...options.bash } }).find(
    ({ name }) => name === "bash",
  )!;
  return (command: string, projectDir: string) => callTool(tool, { command }, createToolContext(projectDir));
}

describe("a required sandbox", () => {
  for (const [userName, uid] of [
    ["the current user", process.getuid?.() ?? 0],
    ["the user nobody", NOBODY_UID],
  ] as const)
    it(`blocks all attacks of ${userName} and allows ordinary work`, async (t) => {
      if (!(await bubblewrap)) return t.skip("no working bubblewrap");
      const skipReason = uid === NOBODY_UID ? await findOtherUserSkipReason() : undefined;
      if (skipReason !== undefined) return t.skip(skipReason);
      const { attacks, work } = await runAttacksAs(uid);
      assert.ok(Object.keys(attacks).length > 40);
      for (const [name, { held, output }] of Object.entries(attacks)) await t.test(name, () => assert.ok(held, output));
      for (const [name, { well, output }] of Object.entries(work)) await t.test(name, () => assert.ok(well, output));
    });

  it("opens the network and makes package caches writable only if the network is enabled", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const home = join(folder.path, "home");
    await mkdir(join(home, ".npm/_cacache"), { recursive: true });
    await mkdir(join(home, ".gradle"));
    await mkdir(join(folder.path, "p"));
    const server = createServer((_request, response) => response.end("outside"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const requestCommand = `node -e 'fetch("http://127.0.0.1:${port}").then(r=>r.text()).then(console.log,e=>console.log(e.cause.code))'; echo x > ~/.npm/_cacache/x && echo kept; echo x > ~/.gradle/x`;
    try {
      const options = { env: { ...env, HOME: home } };
      const openResult = await createBash({ ...options, bash: { network: true } })(
        requestCommand,
        join(folder.path, "p"),
      );
      assert.match(openResult.text, /^outside\nkept\n.*Read-only/);
      assert.match(
        (await createBash({ ...options, bash: { sandbox: "auto" } })(requestCommand, join(folder.path, "p"))).text,
        /^outside\nkept/,
      );
      const closedResult = await createBash(options)(requestCommand, join(folder.path, "p"));
      assert.match(closedResult.text, /^ECONNREFUSED\n[^]*Read-only/);
      assert.ok(!closedResult.text.includes("kept\n"));
    } finally {
      server.close();
    }
  });

  it("describes the sandbox and the network access in use", async (t) => {
    const options = { allowPaths: [], deniedPaths: [], env };
    assert.deepEqual(await new Sandbox({ ...options, sandbox: "off" }).describe(tmpdir()), {
      text: "commands run without a sandbox",
      isWeak: true,
    });
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    assert.equal(
      (await new Sandbox({ ...options, sandbox: "required" }).describe(tmpdir())).text,
      "commands run in bubblewrap, without network access",
    );
    assert.equal(
      (await new Sandbox({ ...options, sandbox: "auto" }).describe(tmpdir())).text,
      "commands run in bubblewrap, with network access",
    );
  });

  it("lets root change files of another user with only file capabilities, and denies umount", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    if (process.getuid?.() !== 0) return t.skip("only root can change the owner of a folder");
    await using folder = await createTemporaryFolder();
    await writeFile(join(folder.path, "a"), "a");
    for (const path of [folder.path, join(folder.path, "a")]) await chown(path, 4711, 4711);
    const { text } = await createBash()(
      "echo b > a && cat a; grep CapEff /proc/self/status; umount /run; mount -o remount,rw /",
      folder.path,
    );
    assert.match(text, /^b\nCapEff:\t000000000000000b\n/);
    assert.match(text, /umount: .*(must be superuser|not permitted)/i);
  });

  it("starts as root despite sockets in private folders of other users, and covers public sockets", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    if (process.getuid?.() !== 0) return t.skip("only root can create sockets in folders of other users");
    await using project = await createTemporaryFolder();
    const publicSocketPaths: string[] = [];
    for (const parent of ["/dev/shm", "/srv", "/var/lib", "/home"]) {
      const folder = await mkdtemp(`${parent}/gantry-socket-`);
      t.after(() => rm(folder, { recursive: true }));
      for (const [name, mode] of [
        ["private", 0o700],
        ["public", 0o755],
      ] as const) {
        await mkdir(join(folder, name));
        const server = createServer().listen(join(folder, name, "socket"));
        await once(server, "listening");
        t.after(() => server.close());
        await chown(join(folder, name), NOBODY_UID, NOBODY_UID);
        await chmod(join(folder, name), mode);
        if (name === "public" && parent !== "/dev/shm") publicSocketPaths.push(join(folder, name, "socket"));
      }
      await chmod(folder, 0o755);
    }
    const { text } = await createBash()(
      `ls -d / ${publicSocketPaths.join(" ")}; test -S ${publicSocketPaths.join(" || test -S ")} || echo covered`,
      project.path,
    );
    assert.match(text, /^\/\n/);
    assert.match(text, /covered\n\[exit code 0\]$/);
  });

  it("reports why the sandbox cannot start, and that the command did not run", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    if (process.getuid?.() !== 0) return t.skip("only root can hide a path that bubblewrap cannot reach");
    await using folder = await createTemporaryFolder();
    const hiddenFile = join(folder.path, "private", "hidden");
    await mkdir(join(folder.path, "project"));
    await mkdir(join(folder.path, "private"), { mode: 0o700 });
    await writeFile(hiddenFile, "");
    await chown(join(folder.path, "private"), NOBODY_UID, NOBODY_UID);
    const options = { allowPaths: [folder.path], deniedPaths: [hiddenFile], env, sandbox: "required" as const };
    const { text, isWeak } = await new Sandbox(options).describe(join(folder.path, "project"));
    assert.match(text, /^commands do not run: the sandbox could not start: .*hidden: Permission denied/);
    assert.equal(isWeak, true);
    const failedCall = createBash({ allowPaths: [folder.path], deniedPaths: [hiddenFile] })(
      "echo ran",
      join(folder.path, "project"),
    );
    await assert.rejects(
      failedCall,
      /^ToolError: the sandbox could not start: .*Permission denied\. The command did not run/,
    );
  });

  it("lets commands write to the extra folders of a run and to no other folder", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const [project, extraFolder, otherFolder] = ["project", "more", "other"].map((name) => join(folder.path, name)) as [
      string,
      string,
      string,
    ];
    for (const path of [project, extraFolder, otherFolder]) await mkdir(path);
    const options = { allowPaths: [], deniedPaths: [], env, bash: { timeout: 30, sandbox: "required" as const } };
    const tool = builtinTools(options).find(({ name }) => name === "bash")!;
    const command = `echo a > ${extraFolder}/a; echo b > ${otherFolder}/b; ls -d ${extraFolder}/a`;
    const context = createToolContext(project, { folders: [extraFolder] });
    assert.match((await callTool(tool, { command }, context)).text, /more\/a/);
    assert.ok(existsSync(join(extraFolder, "a")) && !existsSync(join(otherFolder, "b")));
    await mkdir(join(extraFolder, "home"));
    // The next run has no extra folders.
    await callTool(tool, { command: `echo c > ${extraFolder}/c` }, createToolContext(project));
    assert.ok(!existsSync(join(extraFolder, "c")));
    const toolWithHome = builtinTools({ ...options, env: { ...env, HOME: join(extraFolder, "home") } }).find(
      ({ name }) => name === "bash",
    )!;
    await assert.rejects(callTool(toolWithHome, { command }, context), /contains more than a project/);
    await Promise.all([tool.close?.(), toolWithHome.close?.()]);
  });

  it("does not run a command if a link replaced the project folder after the preparation", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const [project, otherFolder, movedProject] = ["project", "other", "aside"].map((name) =>
      join(folder.path, name),
    ) as [string, string, string];
    await mkdir(project);
    await mkdir(otherFolder);
    const sandbox = new Sandbox({ allowPaths: [], deniedPaths: [], env, sandbox: "required" });
    const preparedSandbox = await sandbox.prepare(project);
    assert.ok(preparedSandbox);
    await rename(project, movedProject);
    await symlink(otherFolder, project);
    let output = "";
    const { code } = await (
      await preparedSandbox.start({ shell: "/bin/sh", command: "echo evil > evil", limits: undefined })
    ).run({
      timeoutMs: 30_000,
      signal: new AbortController().signal,
      onOutput: (chunk) => (output += chunk.toString()),
    });
    assert.equal(code, 126, output);
    assert.match(output, /a folder was replaced/);
    await sandbox.close();
    assert.ok(!existsSync(join(otherFolder, "evil")));
  });

  it("allows commits in a git worktree, and gives no write access for a forged .git file", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const [mainRepository, worktree, forgedWorktree] = ["main", "tree", "evil"].map((name) =>
      join(folder.path, name),
    ) as [string, string, string];
    const git = (cwd: string, ...args: string[]) =>
      execFileAsync("git", ["-c", "user.name=A", "-c", "user.email=a@b.c", ...args], { cwd, env });
    await git(folder.path, "init", "-q", mainRepository);
    await git(mainRepository, "commit", "-q", "--allow-empty", "-m", "first");
    await git(mainRepository, "worktree", "add", "-q", worktree);
    const result = await createBash()(
      "echo x > x && git add x && git -c user.name=A -c user.email=a@b.c commit -q -m second && git log --oneline; " +
        `echo x >> ${mainRepository}/.git/config; echo x > ${mainRepository}/.git/hooks/pre-commit; echo ${forgedWorktree} > ${mainRepository}/.git/worktrees/tree/commondir; echo x > ${mainRepository}/x`,
      worktree,
    );
    assert.match(result.text, /second/);
    assert.equal((await git(worktree, "log", "--format=%s")).stdout, "second\nfirst\n");
    assert.ok(!existsSync(join(mainRepository, "x")) && !existsSync(join(mainRepository, ".git/hooks/pre-commit")));
    await mkdir(forgedWorktree);
    await writeFile(join(forgedWorktree, ".git"), `gitdir: ${mainRepository}/.git/worktrees/tree\n`);
    await createBash()(
      `echo x > ${mainRepository}/.git/worktrees/tree/x; echo x > ${mainRepository}/.git/refs/x`,
      forgedWorktree,
    );
    assert.ok(
      !existsSync(join(mainRepository, ".git/worktrees/tree/x")) && !existsSync(join(mainRepository, ".git/refs/x")),
    );
  });

  it("keeps temporary files between calls, separately for each project", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const [firstProject, secondProject, scratchPath] = ["one", "two", "scratch"].map((name) =>
      join(folder.path, name),
    ) as [string, string, string];
    await mkdir(firstProject);
    await mkdir(secondProject);
    const expiredFolder = join(scratchPath, "0123456789abcdef");
    await mkdir(expiredFolder, { recursive: true });
    await execFileAsync("touch", ["-d", "2020-01-01", expiredFolder]);
    const runCommand = createBash({ bash: { scratchPath } });
    await runCommand("echo mine > /tmp/note; echo more > /var/tmp/note", firstProject);
    assert.equal((await runCommand("cat /tmp/note /var/tmp/note", firstProject)).text, "mine\nmore\n[exit code 0]");
    assert.match((await runCommand("cat /tmp/note", secondProject)).text, /No such file/);
    assert.ok(!existsSync(expiredFolder));
    for (const name of await readdir(scratchPath)) assert.equal((await stat(join(scratchPath, name))).mode & 0o077, 0);
    // A link that a command leaves in its /tmp must not lead bubblewrap to the outside when bubblewrap creates the path
    // to the project.
    const [firstSegment = ""] = firstProject.slice("/tmp/".length).split("/");
    if (firstProject.startsWith("/tmp/")) {
      const scratchTmp = join(scratchPath, createHash("sha256").update(firstProject).digest("hex").slice(0, 16), "tmp");
      await rm(join(scratchTmp, firstSegment), { recursive: true });
      await symlink(secondProject, join(scratchTmp, firstSegment));
      await runCommand("echo x > here", firstProject);
      assert.equal(await readFile(join(firstProject, "here"), "utf8"), "x\n");
      assert.deepEqual(await readdir(secondProject), []);
    }
  });
});

describe("MountPlan", () => {
  it("mounts parents first, and pins the folders between a writable folder and a mount in it", () => {
    const plan = new MountPlan();
    plan.makeReadOnly("/p/a/b/.git/config");
    plan.makeWritable("/p");
    plan.hide("/p/secret", true);
    plan.hide("/p/secret/below", false);
    assert.deepEqual(
      plan
        .createArguments()
        .join(" ")
        .split(/ (?=--)/),
      [
        "--bind /p /p",
        "--tmpfs /p/secret",
        "--bind /p/a /p/a",
        "--bind /p/a/b /p/a/b",
        "--bind /p/a/b/.git /p/a/b/.git",
        "--ro-bind /p/a/b/.git/config /p/a/b/.git/config",
      ],
    );
  });

  it("mounts nothing below a hidden folder; hidden wins over writable", () => {
    const plan = new MountPlan();
    plan.makeWritable("/home/.gantry/project");
    plan.hide("/home/.gantry", true);
    plan.makeWritable("/home/.gantry");
    assert.deepEqual(plan.createArguments(), ["--tmpfs", "/home/.gantry"]);
    assert.ok(plan.isHidden("/home/.gantry/project"));
    assert.ok(!plan.isWritable("/etc"));
  });
});
