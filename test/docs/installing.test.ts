import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { startModelServer, createServerConfig } from "../helpers/server-runs.js";
import { gantryCommand } from "../helpers/source-paths.js";
import { tempDir } from "../helpers/temp-dir.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const readRepositoryFile = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");
const packageJson = JSON.parse(readRepositoryFile("package.json")) as {
  version: string;
  scripts: Record<string, string>;
};

function isInstalled(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

describe("installing.md", () => {
  const page = readRepositoryFile("docs/installing.md");

  it("is linked by README.md and docs/README.md", () => {
    for (const file of ["README.md", "docs/README.md"]) assert.match(readRepositoryFile(file), /installing\.md/, file);
  });

  it("names existing files and npm scripts, and the current version", () => {
    for (const [, file = ""] of page.matchAll(/\]\((installing\/[\w./-]+)\)/g))
      assert.ok(existsSync(path.join(ROOT, "docs", file)), file);
    assert.match(page, new RegExp(`gantry-${packageJson.version.replaceAll(".", "\\.")}\\.tgz`));
    for (const [, script = ""] of page.matchAll(/npm run (\w+)/g)) assert.ok(script in packageJson.scripts, script);
  });
});

/** Commands and specifiers that would install `gantry` from a registry, where the name belongs to a third party. */
function findRegistryInstalls(text: string): string[] {
  const commands = text.matchAll(
    /\b(?:npm|pnpm|yarn|bun|deno)[ \t]+(?:install|i|ci|add|exec|x|dlx|update|create|init)\b[^\n`]*|\b(?:npx|pnpx|bunx)\b[^\n`]*/g,
  );
  const lines = [...commands].map(([line]) => line.replace(/[ \t]#.*/, ""));
  const matchingLines = lines.filter((line) => {
    // Checks only the first command, not a command that npm runs.
    const [firstCommand = ""] = line.split(/&&|\|\||[;|)]/);
    const words = firstCommand.split(/[\s"']+/).slice(1);
    return words.some((word) => /^(?:npm:)?gantry(?:@.*)?$/.test(word)) && !words.includes("--no");
  });
  return [...matchingLines, ...(text.match(/(?<![\w.@/-])gantry@[\w^~*<>=.]+/g) ?? [])];
}

describe("the registry name `gantry`, which belongs to a third party", () => {
  it("is found in commands and specifiers that would fetch the package, and not in other texts", () => {
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
      assert.notDeepEqual(findRegistryInstalls(line), [], line);
    for (const line of [
      "npm install ../gantry   # a clone of gantry",
      "npx --no gantry serve",
      "npm install --global ./gantry-0.1.0.tgz",
      "npm ci && gantry serve",
      "npm uninstall --global gantry",
      "`npm install` has gantry there",
    ])
      assert.deepEqual(findRegistryInstalls(line), [], line);
  });

  it("is fetched by no page, example, source file or message", () => {
    const textFilePattern = /\.(?:[cm]?[jt]sx?|md|json|jsonc|ya?ml|html|service|cfg|sh)$|file$|^run$/;
    const files = ["docs", "examples", "src", "adapters", ".changeset", ".ci"].flatMap((folder) =>
      readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true }).flatMap((entry) =>
        entry.isFile() && textFilePattern.test(entry.name)
          ? [path.relative(ROOT, path.join(entry.parentPath, entry.name))]
          : [],
      ),
    );
    assert.ok(files.length > 200, String(files.length));
    for (const file of [...files, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "package.json"])
      assert.deepEqual(findRegistryInstalls(readRepositoryFile(file)), [], file);
  });
});

describe("Containerfile", () => {
  const containerfile = readRepositoryFile("docs/installing/Containerfile");

  it("has two stages, the user node, a health check, tini as its entry point and no secret", () => {
    assert.equal(containerfile.match(/^FROM /gm)?.length, 2);
    const [, lastStage = ""] = containerfile.split(/^FROM .*(?=\n# bubblewrap)/m);
    assert.match(lastStage, /^USER node$/m);
    assert.doesNotMatch(lastStage.slice(lastStage.indexOf("USER node")), /^RUN /m);
    assert.match(lastStage, /^HEALTHCHECK /m);
    // As the first process, node waits only for its own children: processes that commands leave would become zombies.
    assert.match(lastStage, /apt-get install .*\btini\b/);
    assert.match(lastStage, /^ENTRYPOINT \["tini", "--", "gantry"\]$/m);
    // A key in an image layer is public.
    assert.doesNotMatch(containerfile, /_KEY|TOKEN|SECRET/);
  });

  it("has a health check that exits with 0 for a running server and with 1 for a stopped server", async (t) => {
    const [, commandJson = ""] = /^ {2}CMD (\[.*\])$/m.exec(containerfile) ?? [];
    const [command = "", flag = "", script = ""] = JSON.parse(commandJson) as string[];
    assert.deepEqual([command, flag], ["node", "-e"]);
    const { startServer } = await import("../helpers/server.js");
    const server = await startServer(t);
    const runHealthCheck = (url: string) =>
      new Promise<number>((resolve) =>
        execFile(process.execPath, [flag, script.replace("http://127.0.0.1:8080", url)], (error) =>
          resolve(error ? Number(error.code) : 0),
        ),
      );
    assert.equal(await runHealthCheck(server.url), 0);
    await server.stop();
    assert.equal(await runHealthCheck(server.url), 1);
  });
});

describe("gantry.service", () => {
  const skip = !isInstalled("systemd-analyze", "--version") && "there is no systemd-analyze (apt-get install systemd)";
  it("passes systemd-analyze verify", { skip }, async (t) => {
    const folder = await tempDir(t);
    // Replaces the path of gantry, because systemd-analyze requires an existing program.
    const unit = readRepositoryFile("docs/installing/gantry.service").replace("/usr/local/bin/gantry", "/bin/true");
    await folder.write({ "gantry.service": unit });
    const output = execFileSync("systemd-analyze", ["verify", folder.at("gantry.service")], { stdio: "pipe" });
    assert.equal(output.toString(), "");
  });

  it("sets no option that prevents the sandbox of commands", () => {
    const options = [...readRepositoryFile("docs/installing/gantry.service").matchAll(/^(\w+)=/gm)].map(
      ([, name = ""]) => name,
    );
    // These settings forbid namespaces, or put mounts over /proc, so that a sandbox cannot mount /proc again.
    const forbiddenOptions =
      /^(ProtectProc|ProcSubset|ProtectKernelTunables|ProtectKernelLogs|ProtectHostname|RestrictNamespaces|PrivateUsers)$/;
    assert.deepEqual(
      options.filter((name) => forbiddenOptions.test(name) || name === "MemoryDenyWriteExecute"),
      [],
    );
  });
});

describe("the GitHub Action", () => {
  const action = readRepositoryFile("docs/installing/github-action/action.yml");
  const scripts = [...action.matchAll(/^ {6}run: \|\n((?: {8}[^\n]*\n| *\n)+)/gm)].map(([, text = ""]) =>
    text.replace(/^ {8}/gm, ""),
  );

  it("expands no input into the text of a script", () => {
    assert.equal(scripts.length, 2);
    for (const script of scripts) assert.doesNotMatch(script, /\$\{\{/);
    const inputs = [...action.matchAll(/^ {2}([\w-]+):\n {4}description/gm)].map(([, name]) => name);
    for (const name of inputs.filter((input) => input !== "output" && input !== "exit-code"))
      assert.ok(action.includes(`\${{ inputs.${name} }}`), name);
  });

  const skip = process.platform === "win32" && "needs bash";
  const createActionStep = async (t: TestContext, env: Record<string, string>, config: object = {}) => {
    const modelServer = await startModelServer(t);
    const folder = await tempDir(t, { "a.txt": "alpha", "schema.json": '{"type":"integer"}' });
    const home = await tempDir(t, { "config.json": JSON.stringify({ ...createServerConfig(modelServer), ...config }) });
    const binFolder = await tempDir(t);
    const gantryWords = [process.execPath, ...gantryCommand()];
    await binFolder.write({ gantry: `#!/bin/sh\nexec ${gantryWords.join(" ")} "$@"\n`, output: "" });
    execFileSync("chmod", ["+x", binFolder.at("gantry")]);
    const defaultVariables = Object.fromEntries(
      ["MODEL", "MODE", "BUDGET", "SCHEMA", "FILES", "CONFIG"].map((name) => [`GANTRY_${name}`, ""]),
    );
    const run = () =>
      new Promise<{ code: number; stdout: string }>((resolve) =>
        // Runs the step like a GitHub runner with `shell: bash`.
        execFile(
          "bash",
          ["--noprofile", "--norc", "-eo", "pipefail", "-c", scripts[1] ?? ""],
          {
            cwd: folder.path,
            env: {
              ...defaultVariables,
              PATH: `${binFolder.path}:${process.env["PATH"]}`,
              HOME: home.path,
              GANTRY_HOME: home.path,
              GITHUB_OUTPUT: binFolder.at("output"),
              GANTRY_ALLOWED: "0",
              TSX_TSCONFIG_PATH: path.join(ROOT, "tsconfig.json"),
              ...env,
            },
          },
          (error, stdout) => resolve({ code: error ? Number(error.code) : 0, stdout }),
        ),
      );
    return { modelServer, run, readOutputs: () => binFolder.read("output") };
  };

  it("passes the prompt literally, and sets the exit code and the answer as outputs", { skip }, async (t) => {
    const prompt = 'Say "$(touch hacked)" `touch hacked`; -h --json\nend-0';
    const { modelServer, run, readOutputs } = await createActionStep(t, {
      GANTRY_PROMPT: prompt,
      GANTRY_MODEL: "lab/m1",
      GANTRY_FILES: "a.txt\n",
      GANTRY_MODE: "plan",
    });
    modelServer.enqueue(textStep("First.\noutput<<x\nexit-code=7\n"));
    const result = await run();
    assert.equal(result.code, 0);
    assert.match(
      await readOutputs(),
      /^exit-code=0\noutput<<(end-[0-9a-f]{32})\nFirst\.\noutput<<x\nexit-code=7\n\n\1\n$/,
    );
    const { messages } = modelServer.requests[0]?.body as { messages: unknown[] };
    const lastMessage = JSON.stringify(messages.at(-1));
    assert.ok(lastMessage.includes(JSON.stringify(prompt).slice(1, -1)) && lastMessage.includes("alpha"), lastMessage);
  });

  it("removes everything that a command wrote into the runner's files for later steps", { skip }, async (t) => {
    const files = ["ENV", "PATH", "OUTPUT", "STATE", "STEP_SUMMARY"];
    const folder = await tempDir(t, Object.fromEntries([...files, "other"].map((name) => [name, ""])));
    const fileVariables = Object.fromEntries(files.map((name) => [`GITHUB_${name}`, folder.at(name)]));
    const env = { ...fileVariables, GANTRY_PROMPT: "x", GANTRY_MODEL: "lab/m1" };
    // Simulates a machine without bubblewrap.
    const { modelServer, run } = await createActionStep(t, env, { tools: { bash: { sandbox: "off" } } });
    const writeCommand = `cd ${folder.path} && for file in *; do echo LD_PRELOAD=evil >> $file; done; ln -sf other ENV`;
    modelServer.enqueue(callStep("bash", { command: writeCommand }), textStep("Done."));
    assert.equal((await run()).code, 0);
    for (const name of ["ENV", "PATH", "STATE", "STEP_SUMMARY"]) assert.equal(await folder.read(name), "", name);
    assert.match(await folder.read("OUTPUT"), /^exit-code=0\n/);
    assert.equal(await folder.read("other"), "LD_PRELOAD=evil\n");
  });

  it("prints the answer with workflow commands disabled", { skip }, async (t) => {
    const { modelServer, run } = await createActionStep(t, { GANTRY_PROMPT: "x", GANTRY_MODEL: "lab/m1" });
    modelServer.enqueue(textStep("::error file=a.txt::gone\n::stop-0::\n##[error]x"));
    const { code, stdout } = await run();
    assert.equal(code, 0);
    const [, stopToken = "", printedAnswer = ""] =
      /^::stop-commands::(stop-[0-9a-f]{32})\n([^]*)\n::\1::\n$/.exec(stdout) ?? [];
    assert.match(stopToken, /^stop-/, stdout);
    assert.match(printedAnswer, /^::error file=a\.txt::gone$/m);
  });

  it("fails with the exit code of gantry run, unless that code is allowed", { skip }, async (t) => {
    for (const [allowedCodes, code] of [
      ["0", 4],
      ["0 4", 0],
    ] as const) {
      const { modelServer, run, readOutputs } = await createActionStep(t, {
        GANTRY_PROMPT: "x",
        GANTRY_MODE: "plan",
        GANTRY_ALLOWED: allowedCodes,
      });
      modelServer.enqueue(callStep("write", { path: "a.txt", content: "x" }), textStep("No."));
      assert.equal((await run()).code, code);
      assert.match(await readOutputs(), /^exit-code=4\n/);
    }
    const { modelServer, run, readOutputs } = await createActionStep(t, {
      GANTRY_PROMPT: "x",
      GANTRY_SCHEMA: "schema.json",
    });
    modelServer.enqueue(textStep("7"));
    assert.equal((await run()).code, 0);
    assert.match(await readOutputs(), /^exit-code=0\noutput<<(\S+)\n7\n\n\1\n$/);
  });
});
