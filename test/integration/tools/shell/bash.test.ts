import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { builtinTools, RunCancelledError, ShuttingDownError } from "gantry";
import type { BuiltinToolsOptions, ToolContext } from "gantry";
import { findBubblewrap } from "../../../../src/tools/shell/sandbox/bubblewrap.js";
import { pickUniqueSeconds, waitUntil } from "../../../helpers/server-runs.js";
import { ROOT, SOURCE_FLAGS, sourcePath } from "../../../helpers/source-paths.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };

function createBash(options: BuiltinToolsOptions = {}) {
  const tool = builtinTools({ env, ...options, bash: { sandbox: "off", ...options.bash } }).find(
    (candidate) => candidate.name === "bash",
  )!;
  return (input: object, context: ToolContext) => callTool(tool, input, context);
}

/** Creates a long-running command that no other test uses. */
const createSleepCommand = (): string => `sleep ${pickUniqueSeconds()}`;

/** Returns the ids of the processes, except zombies, that run this command. */
function findProcessIds(command: string): string[] {
  const commandLine = command.replaceAll(" ", "\0");
  return readdirSync("/proc").filter((pid) => {
    try {
      if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
      const state = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)![0];
      return state !== "Z" && readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(commandLine);
    } catch {
      return false;
    }
  });
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };

describe("bash", () => {
  it("redacts secrets of gantry's own environment that no config names", linuxOnly, async () => {
    await using folder = await createTemporaryFolder();
    const script = join(folder.path, "script.mts");
    writeFileSync(
      script,
      `import { builtinTools } from ${JSON.stringify(sourcePath("src/tools/builtin-tools.ts"))};
       import { callTool, createToolContext } from ${JSON.stringify(sourcePath("test/helpers/tool-context.ts"))};
       const env = { PATH: "/usr/bin:/bin" };
       const bash = builtinTools({ env, bash: { sandbox: "off" } }).find(({ name }) => name === "bash")!;
       const command = "tr '\\\\0' '\\\\n' < /proc/$PPID/environ | sort";
       console.log((await callTool(bash, { command }, createToolContext(process.cwd()))).text);`,
    );
    const secrets = {
      OPENAI_API_KEY: "key-0f9e8d7c6b5a4321",
      AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
      GITHUB_TOKEN: "ghp_0123456789abcdefghij",
      DATABASE_URL: "postgres://app:s3cretpass@db/x",
    };
    const child = spawn(process.execPath, [...SOURCE_FLAGS, script], {
      cwd: ROOT,
      env: { ...env, ...secrets, SHOWN: "a-plain-value" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const text = (await child.stdout.toArray()).join("");
    assert.match(text, /^SHOWN=a-plain-value$/m);
    assert.match(text, /^DATABASE_URL=postgres:\/\/app:\[redacted\]@db\/x$/m);
    for (const name of ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"])
      assert.ok(text.includes(`${name}=[redacted]\n`), `${name} in ${text}`);
  });

  it("redacts a configured secret in the output", async () => {
    await using folder = await createTemporaryFolder();
    const run = createBash({ secrets: new Set(["hunter22-key"]) });
    const { text } = await run({ command: "echo a hunter22-''key b" }, createToolContext(folder.path));
    assert.equal(text, "a [redacted] b\n[exit code 0]");
  });

  it("redacts secrets before it truncates, across chunks, and in base64 or hex", async () => {
    await using folder = await createTemporaryFolder();
    const key = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
    const run = createBash({ secrets: [key] });
    await writeFile(join(folder.path, "key"), key);
    const findKeyPieces = (text: string) =>
      Array.from({ length: key.length - 4 }, (_, i) => key.slice(i, i + 5)).filter((piece) => text.includes(piece));
    // The stored output ends at 30,000 bytes from either end, the shown output at 15,000.
    for (const leadBytes of [14_900, 14_930, 29_980, 29_990, 30_000]) {
      const fillCommand = `head -c ${leadBytes} /dev/zero | tr '\\0' x; cat key`;
      for (const command of [
        `${fillCommand}; head -c 100000 /dev/zero | tr '\\0' y`,
        `head -c 100000 /dev/zero | tr '\\0' y; cat key; head -c ${leadBytes} /dev/zero | tr '\\0' x`,
      ])
        assert.deepEqual(findKeyPieces((await run({ command }, createToolContext(folder.path))).text), [], command);
    }
    // Time: most pieces arrive separately. The result is the same if they do not.
    const slowCommand = "for c in $(fold -w 5 key); do printf %s $c; sleep 0.02; done";
    assert.equal(
      (await run({ command: slowCommand }, createToolContext(folder.path))).text,
      "[redacted]\n[exit code 0]",
    );
    for (const command of [
      "base64 key",
      "base64 -w 0 key",
      "od -An -tx1 key",
      "xxd -p key || od -An -tx1 key",
      "(echo '{'; cat key) | base64 -w 20",
    ]) {
      const { text } = await run({ command }, createToolContext(folder.path));
      const bytes = Buffer.from(
        text.replace(/\[redacted\][^]*|\s/g, ""),
        command.includes("base64") ? "base64" : "hex",
      );
      assert.deepEqual(findKeyPieces(text + bytes.toString("latin1")), [], text);
      assert.match(text, /\[redacted\]/);
    }
  });

  it("streams output as it is printed, with secrets redacted and characters whole", async () => {
    await using folder = await createTemporaryFolder();
    const key = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
    const run = createBash({ secrets: [key] });
    await writeFile(join(folder.path, "key"), key);
    let shownText = "";
    const openedGates = new Set<string>();
    const progress = (text: string): void => {
      shownText += text;
      for (const [gate, expectedText] of [
        ["1", "first ✓ é\n"],
        ["2", "key: [redacted]\n"],
        ["3", "key: [redacted]\n[redacted]\n"],
      ] as const)
        if (shownText.includes(expectedText) && !openedGates.has(gate)) {
          openedGates.add(gate);
          writeFileSync(join(folder.path, gate), "");
        }
    };
    const createWaitCommand = (gate: string) => `while [ ! -e ${gate} ]; do sleep 0.02; done`;
    // Time: each pause is longer than the delay of buffered output, so that pieces are shown separately. The result is
    // the same for joined pieces.
    const slowPrintCommand = "for c in $(fold -w 5 key); do printf %s $c; sleep 0.15; done";
    const command = [
      "printf 'first \\342\\234'; sleep 0.15; printf '\\223 \\303'; sleep 0.15; printf '\\251\\n'",
      createWaitCommand("1"),
      `printf 'key: '; ${slowPrintCommand}; echo`,
      createWaitCommand("2"),
      "cat key; echo",
      createWaitCommand("3"),
    ].join("; ");
    const { text } = await run({ command }, createToolContext(folder.path, { progress }));
    assert.equal(shownText, "first ✓ é\nkey: [redacted]\n[redacted]\n");
    assert.equal(text, `${shownText}[exit code 0]`);
  });

  it("limits progress during 50 MB of output to 20,000 characters per 100 ms", async () => {
    await using folder = await createTemporaryFolder();
    let [shownCharacters, maxCharacters] = [0, 0];
    const progress = (text: string): void => {
      shownCharacters += text.length;
      maxCharacters = Math.max(maxCharacters, text.length);
    };
    const command = "yes 0123456789abcdef | head -c 50000000";
    const startMs = performance.now();
    const { failed } = await createBash()({ command }, createToolContext(folder.path, { progress }));
    assert.equal(failed, false);
    const elapsedTenths = Math.ceil((performance.now() - startMs) / 100);
    assert.ok(
      shownCharacters < 20_000 * elapsedTenths,
      `${shownCharacters} characters in ${elapsedTenths} tenths of a second`,
    );
    assert.ok(maxCharacters < 20_000, `${maxCharacters} characters at once`);
  });

  it("reports output in order, exit code and signal, and rejects NUL, over 128 KiB and empty commands", async () => {
    await using folder = await createTemporaryFolder();
    const context = createToolContext(folder.path);
    const run = createBash();
    const orderCommand = Array.from({ length: 20 }, (_, i) => `echo o${i}; echo e${i} >&2`).join("; ");
    const orderedResult = await run({ command: orderCommand }, context);
    assert.equal(
      orderedResult.text,
      `${Array.from({ length: 20 }, (_, i) => `o${i}\ne${i}`).join("\n")}\n[exit code 0]`,
    );
    assert.equal(orderedResult.failed, false);
    const failedResult = await run({ command: "pwd; exit 3" }, context);
    assert.deepEqual([failedResult.text, failedResult.failed], [`${folder.path}\n[exit code 3]`, true]);
    assert.deepEqual((await run({ command: "kill -SEGV $$" }, context)).text, "(no output)\n[ended by SIGSEGV]");
    assert.match((await run({ command: "if" }, context)).text, /syntax error[^]*\[exit code \d\]$/);
    assert.equal((await run({ command: "cat; tty || true" }, context)).text, "not a tty\n[exit code 0]");
    assert.equal(
      (await run({ command: "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'" }, context)).text,
      "red\n100%\n[exit code 0]",
    );
    assert.match((await run({ command: "printf '\\377\\000x'" }, context)).text, /^\uFFFD\uFFFDx\n/);
    await assert.rejects(run({ command: "a\0b" }, context), /NUL/);
    await assert.rejects(run({ command: `echo ${"x".repeat(200_000)}` }, context), /128 KiB/);
    assert.throws(
      () =>
        builtinTools()
          .find((candidate) => candidate.name === "bash")!
          .parse({ command: "" }),
      /not empty/,
    );
  });

  it("passes only the listed environment to commands", async () => {
    await using folder = await createTemporaryFolder();
    process.env.GANTRY_TEST_CANARY = "canary";
    const { text } = await createBash({ env: { PATH: env.PATH, ONLY: "this" } })(
      { command: "env" },
      createToolContext(folder.path),
    );
    delete process.env.GANTRY_TEST_CANARY;
    assert.ok(!text.includes("canary"));
    assert.match(text, /^ONLY=this$/m);
    const variableNames = text.split("\n").map((line) => line.split("=")[0]);
    assert.deepEqual(
      variableNames.filter(
        (name) => !["PATH", "ONLY", "GANTRY_CALL", "PWD", "OLDPWD", "SHLVL", "_", "[exit code 0]"].includes(name!),
      ),
      [],
    );
  });

  it("uses less than 30 MB of memory for 100 MB of output and keeps its head and tail", async () => {
    await using folder = await createTemporaryFolder();
    const measureBytes = (): number => {
      collectGarbage();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const initialBytes = measureBytes();
    let [maxBytes, isMeasured] = [initialBytes, false];
    // The last line is printed when the previous line was shown, so that memory is measured after 100 MB.
    const waitCommand = "while [ ! -e gate ]; do sleep 0.02; done";
    const progress = (text: string): void => {
      maxBytes = Math.max(maxBytes, measureBytes());
      isMeasured = true;
      if (text.includes("almost")) writeFileSync(join(folder.path, "gate"), "");
    };
    const { text } = await createBash()(
      {
        command: `echo first; head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo almost; ${waitCommand}; echo last`,
      },
      createToolContext(folder.path, { progress }),
    );
    assert.match(text, /^first\nx{99}\n/);
    assert.match(text, /bytes cut from the middle/);
    assert.match(text, /\nlast\n\[exit code 0\]$/);
    assert.ok(Buffer.byteLength(text) < 32_000);
    assert.ok(isMeasured);
    assert.ok(maxBytes - initialBytes < 30_000_000, `${maxBytes - initialBytes} bytes`);
  });

  it("stops a command at its timeout and returns the output so far", async () => {
    await using folder = await createTemporaryFolder();
    const command = createSleepCommand();
    // A slow machine can need more than a second to start a shell.
    for (const seconds of [1, 10, 100]) {
      const { text, failed } = await createBash()(
        { command: `echo begun; ${command}`, timeout: String(seconds) },
        createToolContext(folder.path),
      );
      assert.equal(failed, true);
      assert.deepEqual(findProcessIds(command), []);
      if (text.startsWith("(no output)") && seconds < 100) continue;
      assert.match(text, new RegExp(`^begun\\n\\[stopped after ${seconds} s`));
      return;
    }
  });

  it("reads a timeout above 600 as milliseconds, accepts timeout_ms, and reports both in the result", async () => {
    await using folder = await createTemporaryFolder();
    const context = createToolContext(folder.path);
    const [firstCommand, secondCommand] = [createSleepCommand(), createSleepCommand()];
    const millisecondsResult = await createBash()({ command: firstCommand, timeout: 1000 }, context);
    assert.match(
      millisecondsResult.text,
      /\[stopped after 1 s, with all processes that it started; timeout is in seconds, at most 600; 1000 was interpreted as milliseconds\]$/,
    );
    assert.match(
      (await createBash()({ command: secondCommand, timeout_ms: 500 }, context)).text,
      /\[stopped after 1 s, .*set a longer timeout/,
    );
    assert.deepEqual([...findProcessIds(firstCommand), ...findProcessIds(secondCommand)], []);
  });

  it("runs a command in its workdir: relative, absolute, outside the project, with special characters", async () => {
    await using folder = await createTemporaryFolder();
    await using outside = await createTemporaryFolder();
    const context = createToolContext(folder.path);
    const specialName = 'it\'s a "$(touch made)"\nfolder';
    for (const name of ["packages/x", specialName, "-", "-P", "$HOME", "..x"]) {
      await mkdir(join(folder.path, name), { recursive: true });
      const { text } = await createBash()({ command: "pwd", workdir: name }, context);
      assert.equal(text, `${join(folder.path, name)}\n[exit code 0]`);
    }
    const absoluteResult = await createBash()({ command: "pwd; exit 3", workdir: outside.path }, context);
    assert.deepEqual(absoluteResult, {
      text: `${outside.path}\n[exit code 3]`,
      failed: true,
      commandEnd: { exitCode: 3, output: `${outside.path}\n`, truncated: false, timedOut: false },
    });
    const aliasResult = await createBash()({ command: "cat <<E\n$PWD\nE", cwd: "packages/../packages/x" }, context);
    assert.match(aliasResult.text, /packages\/x\n\[exit code 0\]$/);
    // With CDPATH, `cd` would search this folder first.
    const runWithCdpath = createBash({ env: { ...env, CDPATH: outside.path } });
    await mkdir(join(outside.path, "packages/x"), { recursive: true });
    assert.equal(
      (await runWithCdpath({ command: "pwd", workdir: "packages/x" }, context)).text,
      `${join(folder.path, "packages/x")}\n[exit code 0]`,
    );
    assert.ok(!existsSync(join(folder.path, "made")));
  });

  it("does not run a command if its workdir cannot be entered", async () => {
    await using folder = await createTemporaryFolder();
    await writeFile(join(folder.path, "file"), "");
    for (const workdir of ["missing", "file", `${folder.path}/missing`]) {
      const { text, failed } = await createBash()({ command: "touch made", workdir }, createToolContext(folder.path));
      assert.match(text, /cd: .*(No such file|Not a directory)[^]*\[exit code 1\]$/);
      assert.equal(failed, true);
    }
    assert.ok(!existsSync(join(folder.path, "made")));
  });

  it("ends background children that keep the pipes, and children that left the process group", linuxOnly, async () => {
    await using folder = await createTemporaryFolder();
    const context = createToolContext(folder.path);
    const command = createSleepCommand();
    const result = await createBash()({ command: `${command} & echo done` }, context);
    assert.match(result.text, /^done\n\[exit code 0\]\n\[remaining background processes were stopped/);
    assert.deepEqual(findProcessIds(command), []);
    const detachedCommand = `setsid sh -c 'touch up; ${command}; :' >/dev/null 2>&1 &`;
    await createBash()({ command: `${detachedCommand} while [ ! -e up ]; do sleep 0.02; done` }, context);
    assert.deepEqual(findProcessIds(command), []);
  });

  it("ends the whole process tree on cancel, including a child that ignores TERM", linuxOnly, async () => {
    await using folder = await createTemporaryFolder();
    const abortController = new AbortController();
    const reason = new RunCancelledError();
    const [firstCommand, secondCommand, thirdCommand] = [
      createSleepCommand(),
      createSleepCommand(),
      createSleepCommand(),
    ];
    const pendingCall = createBash()(
      {
        command: `(trap '' TERM; while :; do ${firstCommand}; done) & (${secondCommand} | ${secondCommand}) & setsid ${thirdCommand} & touch ready; wait`,
      },
      createToolContext(folder.path, { signal: abortController.signal }),
    );
    const rejection = assert.rejects(pendingCall, reason);
    await waitUntil(() => existsSync(join(folder.path, "ready")));
    abortController.abort(reason);
    await rejection;
    for (const command of [firstCommand, secondCommand, thirdCommand]) assert.deepEqual(findProcessIds(command), []);
  });

  it(
    "lets a child clean up after TERM when the server shuts down, and kills other processes after more than 1 s",
    linuxOnly,
    async () => {
      await using folder = await createTemporaryFolder();
      const abortController = new AbortController();
      const startMs = performance.now();
      const command = createSleepCommand();
      const stubbornCall = createBash()(
        {
          command: `trap 'echo cleaned > cleaned; exit 0' TERM; (trap '' TERM; touch ready; ${command}) & while :; do sleep 0.05; done`,
        },
        createToolContext(folder.path, { signal: abortController.signal }),
      );
      const shutdownRejection = assert.rejects(stubbornCall, { code: "shutting_down" });
      await waitUntil(() => existsSync(join(folder.path, "ready")));
      abortController.abort(new ShuttingDownError());
      await shutdownRejection;
      assert.equal(await readFile(join(folder.path, "cleaned"), "utf8"), "cleaned\n");
      assert.deepEqual(findProcessIds(command), []);
      assert.ok(performance.now() - startMs > 1_000);
    },
  );

  it("ends its child processes when gantry's process exits", linuxOnly, async () => {
    await using folder = await createTemporaryFolder();
    const script = join(folder.path, "host.mjs");
    const command = createSleepCommand();
    await writeFile(
      script,
      `import { builtinTools } from ${JSON.stringify(sourcePath("src/tools/builtin-tools.ts"))};
       const bash = builtinTools({ bash: { sandbox: "off" } }).find((tool) => tool.name === "bash");
       const context = { sessionId: "s", callId: "c", projectDir: ${JSON.stringify(folder.path)}, signal: new AbortController().signal, ask: async () => "allow", state: new Map() };
       void bash.run(bash.parse({ command: "trap '' TERM; ${command} & touch ready; wait" }), context);
       const { existsSync } = await import("node:fs");
       setInterval(() => existsSync(${JSON.stringify(join(folder.path, "ready"))}) && process.exit(0), 20);`,
    );
    const child = spawn(process.execPath, [...SOURCE_FLAGS, script], { cwd: ROOT, stdio: "inherit" });
    assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
    await waitUntil(() => findProcessIds(command).length === 0);
  });

  it("keeps what a command has printed before it is cancelled", async () => {
    await using folder = await createTemporaryFolder();
    const abortController = new AbortController();
    let printedText = "";
    const pendingCall = createBash()(
      { command: `echo printed; ${createSleepCommand()}` },
      createToolContext(folder.path, { signal: abortController.signal, progress: (text) => (printedText += text) }),
    );
    await waitUntil(() => printedText === "printed\n");
    abortController.abort(new RunCancelledError());
    const { text, failed } = await pendingCall;
    assert.equal(text, "printed\n[stopped with the run, with all processes that it started]");
    assert.equal(failed, true);
  });

  it("does not start a cancelled call, and rejects a missing project folder", async () => {
    await using folder = await createTemporaryFolder();
    const abortedSignal = AbortSignal.abort(new RunCancelledError());
    await assert.rejects(
      createBash()({ command: "touch x" }, createToolContext(folder.path, { signal: abortedSignal })),
      {
        code: "run_cancelled",
      },
    );
    assert.deepEqual(readdirSync(folder.path), []);
    await assert.rejects(createBash()({ command: "true" }, createToolContext(join(folder.path, "gone"))), {
      code: "project_folder",
    });
  });
});

describe("the sandbox of bash", () => {
  const bubblewrap = findBubblewrap({ env, network: false });

  it("rejects commands if the sandbox is required and does not work", async (t) => {
    if (await bubblewrap) return t.skip("bubblewrap works here");
    await using folder = await createTemporaryFolder();
    await assert.rejects(
      createBash({ bash: { sandbox: "required" } })({ command: "true" }, createToolContext(folder.path)),
      /need a sandbox/,
    );
  });

  it("limits writes to the project, hides gantry's home, ends all processes, and lets TERM handlers finish", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const home = join(folder.path, "home");
    await mkdir(home);
    await writeFile(join(home, "store.db"), "SECRET");
    const context = createToolContext(folder.path);
    const run = createBash({ deniedPaths: [home], bash: { sandbox: "required" } });
    const { text } = await run(
      { command: `cat home/store.db; ls -d /proc/${process.pid}; echo x > /etc/gantry-test; echo hi > new; cat new` },
      context,
    );
    assert.ok(!text.includes("SECRET"));
    assert.match(text, /store.db: No such file/);
    assert.match(text, /Read-only file system\nhi\n\[exit code 0\]/);
    assert.equal(await readFile(join(folder.path, "new"), "utf8"), "hi\n");
    const outsideResult = await run({ command: "pwd; touch new", workdir: "/etc" }, context);
    assert.match(outsideResult.text, /^\/etc\n[^]*Read-only file system\n\[exit code 1\]/);
    const homeResult = await run({ command: "cat store.db", workdir: "home" }, context);
    assert.equal(homeResult.failed, true);
    assert.ok(!homeResult.text.includes("SECRET"));
    const command = createSleepCommand();
    const detachedCommand = `setsid env -i /bin/sh -c 'touch up; exec ${command}' >/dev/null 2>&1 &`;
    await run({ command: `${detachedCommand} while [ ! -e up ]; do sleep 0.02; done` }, context);
    assert.deepEqual(findProcessIds(command), []);
    const abortController = new AbortController();
    const trappedCall = run(
      { command: "trap 'echo cleaned > cleaned; exit 0' TERM; touch ready; while :; do sleep 0.05; done" },
      { ...context, signal: abortController.signal },
    );
    const cancelRejection = assert.rejects(trappedCall, { code: "run_cancelled" });
    await waitUntil(() => existsSync(join(folder.path, "ready")));
    abortController.abort(new RunCancelledError());
    await cancelRejection;
    assert.equal(await readFile(join(folder.path, "cleaned"), "utf8"), "cleaned\n");
  });
});
