import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const COMMANDS = [
  ["serve", "--port", "0"],
  ["run", "Hello"],
  ["sessions", "list"],
  ["models"],
  ["init", "--provider", "ollama"],
] as const;

const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc and mount" };

describe("a home folder that cannot be created", () => {
  for (const command of COMMANDS) {
    it(
      `ends \`gantry ${command.join(" ")}\` with exit code 1 and one line below /proc (ENOENT)`,
      linuxOnly,
      async (t) => {
        for (const home of ["/proc/nope", "/proc/nope/below"]) {
          const { code, stdout, stderr } = await runGantry(t, command, { home });
          assert.deepEqual({ code, stdout, stderr }, { code: 1, stdout: "", stderr: createErrorLine(home, "ENOENT") });
        }
      },
    );

    it(`ends \`gantry ${command.join(" ")}\` with exit code 1 and one line if a file blocks the folder (EEXIST, ENOTDIR)`, async (t) => {
      const folder = await tempDir(t, { file: "" });
      for (const [name, cause] of [
        ["file", "EEXIST"],
        ["file/below", "ENOTDIR"],
      ] as const) {
        const home = folder.at(name);
        const { code, stdout, stderr } = await runGantry(t, command, { home });
        assert.deepEqual({ code, stdout, stderr }, { code: 1, stdout: "", stderr: createErrorLine(home, cause) });
      }
    });

    it(
      `ends \`gantry ${command.join(" ")}\` with exit code 1 and one line on a read-only file system (EROFS)`,
      linuxOnly,
      async (t) => {
        const folder = await tempDir(t);
        await folder.write({ "home/config.json": "{}" });
        // Root can write everywhere else, so the folder is mounted read-only.
        const readOnlyScript = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`;
        const commandPrefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", readOnlyScript, folder.path];
        for (const home of [folder.at("home"), folder.at("new")]) {
          const { code, stdout, stderr } = await runGantry(t, command, { home, commandPrefix });
          if (/^(unshare|mount): /m.test(stderr)) return t.skip(stderr.trim());
          assert.deepEqual({ code, stdout, stderr }, { code: 1, stdout: "", stderr: createErrorLine(home, "EROFS") });
        }
      },
    );
  }
});

function createErrorLine(home: string, code: string): string {
  return `gantry: ${home}: gantry's home folder cannot be created (${code}); set GANTRY_HOME to a folder that you can write to\n`;
}
