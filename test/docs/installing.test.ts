import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { call, say } from "../helpers/fake-model-server.js";
import { lab, labConfig } from "../helpers/lab.js";
import { gantryCommand } from "../helpers/node.js";
import { tempDir } from "../helpers/temp.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const read = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");
const manifest = JSON.parse(read("package.json")) as { version: string; scripts: Record<string, string> };

function isThere(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

describe("installing.md", () => {
  const page = read("docs/installing.md");

  it("is linked by the README and by the index, so that no other page needs to repeat it", () => {
    for (const file of ["README.md", "docs/README.md"]) assert.match(read(file), /installing\.md/, file);
  });

  it("names files, scripts and versions that there are", () => {
    for (const [, file = ""] of page.matchAll(/\]\((installing\/[\w./-]+)\)/g))
      assert.ok(existsSync(path.join(ROOT, "docs", file)), file);
    assert.match(page, new RegExp(`gantry-${manifest.version.replaceAll(".", "\\.")}\\.tgz`));
    for (const [, script = ""] of page.matchAll(/npm run (\w+)/g)) assert.ok(script in manifest.scripts, script);
  });
});

/** Commands and specifiers that would install `gantry` from a registry, where the name belongs to a third party. */
function fetched(text: string): string[] {
  const commands = text.matchAll(
    /\b(?:npm|pnpm|yarn|bun|deno)[ \t]+(?:install|i|ci|add|exec|x|dlx|update|create|init)\b[^\n`]*|\b(?:npx|pnpx|bunx)\b[^\n`]*/g,
  );
  const lines = [...commands].map(([line]) => line.replace(/[ \t]#.*/, ""));
  const named = lines.filter((line) => {
    // Only the first command, and not the command that npm runs.
    const [firstCommand = ""] = line.split(/&&|\|\||[;|)]/);
    const words = firstCommand.split(/[\s"']+/).slice(1);
    return words.some((word) => /^(?:npm:)?gantry(?:@.*)?$/.test(word)) && !words.includes("--no");
  });
  return [...named, ...(text.match(/(?<![\w.@/-])gantry@[\w^~*<>=.]+/g) ?? [])];
}

describe("the name `gantry` in a registry, which is a stranger's", () => {
  it("is told where it stands", () => {
    for (const line of [
      "npm install gantry",
      "npm i -g gantry # x",
      "npm install --save-dev tsx gantry@1",
      "npx gantry serve",
      "`npx --yes gantry`",
      "npm exec gantry",
      "pnpm add gantry",
      "yarn add gantry",
      "bunx gantry",
      '"package": "gantry@1.0.0"',
      "import { Agent } from 'npm:gantry@1'",
    ])
      assert.notDeepEqual(fetched(line), [], line);
    for (const line of [
      "npm install ../gantry   # a clone of gantry",
      "npx --no gantry serve",
      "npm install --global ./gantry-0.0.0.tgz",
      "npm ci && gantry serve",
      "npm uninstall --global gantry",
      "`npm install` has gantry there",
    ])
      assert.deepEqual(fetched(line), [], line);
  });

  it("is installed or run by no page, example, file or message", () => {
    const texts = /\.(?:[cm]?[jt]sx?|md|json|jsonc|ya?ml|html|service|cfg|sh)$|file$|^run$/;
    const files = ["docs", "examples", "src", "adapters", ".changeset", ".ci"].flatMap((folder) =>
      readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true }).flatMap((entry) =>
        entry.isFile() && texts.test(entry.name) ? [path.relative(ROOT, path.join(entry.parentPath, entry.name))] : [],
      ),
    );
    assert.ok(files.length > 200, String(files.length));
    for (const file of [...files, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "package.json"])
      assert.deepEqual(fetched(read(file)), [], file);
  });
});

describe("Containerfile", () => {
  const file = read("docs/installing/Containerfile");

  it("has two stages, ends as a user without rights, and asks after its health", () => {
    assert.equal(file.match(/^FROM /gm)?.length, 2);
    const [, last = ""] = file.split(/^FROM .*(?=\n# bubblewrap)/m);
    assert.match(last, /^USER node$/m);
    assert.doesNotMatch(last.slice(last.indexOf("USER node")), /^RUN /m);
    assert.match(last, /^HEALTHCHECK /m);
    // As the first process, node waits only for its own children: processes that commands leave would become zombies.
    assert.match(last, /apt-get install .*\btini\b/);
    assert.match(last, /^ENTRYPOINT \["tini", "--", "gantry"\]$/m);
    // A key in an image layer is public.
    assert.doesNotMatch(file, /_KEY|TOKEN|SECRET/);
  });

  it("its health check tells a server that is well from none", async (t) => {
    const [, list = ""] = /^ {2}CMD (\[.*\])$/m.exec(file) ?? [];
    const [command = "", flag = "", script = ""] = JSON.parse(list) as string[];
    assert.deepEqual([command, flag], ["node", "-e"]);
    const { startServer } = await import("../helpers/server.js");
    const server = await startServer(t);
    const asks = (url: string) =>
      new Promise<number>((resolve) =>
        execFile(process.execPath, [flag, script.replace("http://127.0.0.1:8080", url)], (error) =>
          resolve(error ? Number(error.code) : 0),
        ),
      );
    assert.equal(await asks(server.url), 0);
    await server.stop();
    assert.equal(await asks(server.url), 1);
  });
});

describe("gantry.service", () => {
  const skip = !isThere("systemd-analyze", "--version") && "there is no systemd-analyze (apt-get install systemd)";
  it("is a unit that systemd takes", { skip }, async (t) => {
    const folder = await tempDir(t);
    // The location of gantry on this machine does not matter.
    const unit = read("docs/installing/gantry.service").replace("/usr/local/bin/gantry", "/bin/true");
    await folder.write({ "gantry.service": unit });
    const output = execFileSync("systemd-analyze", ["verify", folder.at("gantry.service")], { stdio: "pipe" });
    assert.equal(output.toString(), "");
  });

  it("has nothing that takes the sandbox of commands away", () => {
    const set = [...read("docs/installing/gantry.service").matchAll(/^(\w+)=/gm)].map(([, name = ""]) => name);
    // These settings put mounts over /proc, so that it cannot be mounted again, or forbid namespaces.
    const bad =
      /^(ProtectProc|ProcSubset|ProtectKernelTunables|ProtectKernelLogs|ProtectHostname|RestrictNamespaces|PrivateUsers)$/;
    assert.deepEqual(
      set.filter((name) => bad.test(name) || name === "MemoryDenyWriteExecute"),
      [],
    );
  });
});

describe("the GitHub Action", () => {
  const file = read("docs/installing/github-action/action.yml");
  const scripts = [...file.matchAll(/^ {6}run: \|\n((?: {8}[^\n]*\n| *\n)+)/gm)].map(([, text = ""]) =>
    text.replace(/^ {8}/gm, ""),
  );

  it("puts nothing that others wrote into the text of a script", () => {
    assert.equal(scripts.length, 2);
    for (const script of scripts) assert.doesNotMatch(script, /\$\{\{/);
    const inputs = [...file.matchAll(/^ {2}([\w-]+):\n {4}description/gm)].map(([, name]) => name);
    for (const name of inputs.filter((input) => input !== "output" && input !== "exit-code"))
      assert.ok(file.includes(`\${{ inputs.${name} }}`), name);
  });

  const skip = process.platform === "win32" && "needs bash";
  const step = async (t: TestContext, env: Record<string, string>, config: object = {}) => {
    const fake = await lab(t);
    const folder = await tempDir(t, { "a.txt": "alpha", "schema.json": '{"type":"integer"}' });
    const home = await tempDir(t, { "config.json": JSON.stringify({ ...labConfig(fake), ...config }) });
    const bin = await tempDir(t);
    const cli = [process.execPath, ...gantryCommand()];
    await bin.write({ gantry: `#!/bin/sh\nexec ${cli.join(" ")} "$@"\n`, output: "" });
    execFileSync("chmod", ["+x", bin.at("gantry")]);
    const defaultVariables = Object.fromEntries(
      ["MODEL", "MODE", "BUDGET", "SCHEMA", "FILES", "CONFIG"].map((name) => [`GANTRY_${name}`, ""]),
    );
    const run = () =>
      new Promise<{ code: number; stdout: string }>((resolve) =>
        // As a GitHub runner executes a step with `shell: bash`.
        execFile(
          "bash",
          ["--noprofile", "--norc", "-eo", "pipefail", "-c", scripts[1] ?? ""],
          {
            cwd: folder.path,
            env: {
              ...defaultVariables,
              PATH: `${bin.path}:${process.env["PATH"]}`,
              HOME: home.path,
              GANTRY_HOME: home.path,
              GITHUB_OUTPUT: bin.at("output"),
              GANTRY_ALLOWED: "0",
              TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json"),
              ...env,
            },
          },
          (error, stdout) => resolve({ code: error ? Number(error.code) : 0, stdout }),
        ),
      );
    return { fake, run, outputs: () => bin.read("output") };
  };

  it("runs the prompt, whatever stands in it, and gives out what was said", { skip }, async (t) => {
    const prompt = 'Say "$(touch hacked)" `touch hacked`; -h --json\nend-0';
    const { fake, run, outputs } = await step(t, {
      GANTRY_PROMPT: prompt,
      GANTRY_MODEL: "lab/m1",
      GANTRY_FILES: "a.txt\n",
      GANTRY_MODE: "plan",
    });
    fake.enqueue(say("First.\noutput<<x\nexit-code=7\n"));
    const done = await run();
    assert.equal(done.code, 0);
    assert.match(await outputs(), /^exit-code=0\noutput<<(end-[0-9a-f]{32})\nFirst\.\noutput<<x\nexit-code=7\n\n\1\n$/);
    const { messages } = fake.requests[0]?.body as { messages: unknown[] };
    const lastMessage = JSON.stringify(messages.at(-1));
    assert.ok(lastMessage.includes(JSON.stringify(prompt).slice(1, -1)) && lastMessage.includes("alpha"), lastMessage);
  });

  it("gives later steps nothing that a command wrote into the runner's files", { skip }, async (t) => {
    const files = ["ENV", "PATH", "OUTPUT", "STATE", "STEP_SUMMARY"];
    const folder = await tempDir(t, Object.fromEntries([...files, "other"].map((name) => [name, ""])));
    const names = Object.fromEntries(files.map((name) => [`GITHUB_${name}`, folder.at(name)]));
    const env = { ...names, GANTRY_PROMPT: "x", GANTRY_MODEL: "lab/m1" };
    // Simulates a machine without bubblewrap.
    const { fake, run } = await step(t, env, { tools: { bash: { sandbox: "off" } } });
    const write = `cd ${folder.path} && for file in *; do echo LD_PRELOAD=evil >> $file; done; ln -sf other ENV`;
    fake.enqueue(call("bash", { command: write }), say("Done."));
    assert.equal((await run()).code, 0);
    for (const name of ["ENV", "PATH", "STATE", "STEP_SUMMARY"]) assert.equal(await folder.read(name), "", name);
    assert.match(await folder.read("OUTPUT"), /^exit-code=0\n/);
    assert.equal(await folder.read("other"), "LD_PRELOAD=evil\n");
  });

  it("shows what was said as text, not as commands of the workflow", { skip }, async (t) => {
    const { fake, run } = await step(t, { GANTRY_PROMPT: "x", GANTRY_MODEL: "lab/m1" });
    fake.enqueue(say("::error file=a.txt::gone\n::stop-0::\n##[error]x"));
    const { code, stdout } = await run();
    assert.equal(code, 0);
    const [, word = "", shown = ""] = /^::stop-commands::(stop-[0-9a-f]{32})\n([^]*)\n::\1::\n$/.exec(stdout) ?? [];
    assert.match(word, /^stop-/, stdout);
    assert.match(shown, /^::error file=a\.txt::gone$/m);
  });

  it("fails as gantry run does, unless its exit code is allowed", { skip }, async (t) => {
    for (const [allowed, code] of [
      ["0", 4],
      ["0 4", 0],
    ] as const) {
      const { fake, run, outputs } = await step(t, {
        GANTRY_PROMPT: "x",
        GANTRY_MODE: "plan",
        GANTRY_ALLOWED: allowed,
      });
      fake.enqueue(call("write", { path: "a.txt", content: "x" }), say("No."));
      assert.equal((await run()).code, code);
      assert.match(await outputs(), /^exit-code=4\n/);
    }
    const { fake, run, outputs } = await step(t, { GANTRY_PROMPT: "x", GANTRY_SCHEMA: "schema.json" });
    fake.enqueue(say("7"));
    assert.equal((await run()).code, 0);
    assert.match(await outputs(), /^exit-code=0\noutput<<(\S+)\n7\n\n\1\n$/);
  });
});
