import assert from "node:assert/strict";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter } from "node:path";
import { it } from "node:test";
import { McpServers } from "gantry/adapters/mcp-tools";
import { removeProjectFolders } from "../../../adapters/mcp-tools/local-path.js";
import { openToolSource } from "../../helpers/mcp-servers.js";
import { tempDir } from "../../helpers/temp-dir.js";

it("an MCP server whose command is in the project folder is rejected for every form of the command's folder in PATH", async (t) => {
  const folder = await tempDir(t);
  const project = folder.at("project");
  await mkdir(`${project}/bin`, { recursive: true });
  await symlink(`${project}/bin`, folder.at("link"));
  await writeFile(`${project}/bin/cloned-server`, `#!/bin/sh\n: > "${folder.at("ran")}"\n`);
  await chmod(`${project}/bin/cloned-server`, 0o755);
  const server = { name: "cloned", command: "cloned-server", args: [], env: {} };
  const defaultPath = process.env["PATH"] ?? "/usr/bin:/bin";
  for (const pathEntry of ["bin", "./bin", ".", "", `${project}/bin`, folder.at("link")]) {
    const servers = new McpServers({ env: { PATH: [pathEntry, defaultPath].join(delimiter) } });
    const cwd = pathEntry === "." || pathEntry === "" ? { cwd: `${project}/bin` } : {};
    await assert.rejects(openToolSource(t, servers.source({ ...server, ...cwd }), project), {
      message: /^command cloned-server or the working directory/,
    });
  }
  await assert.rejects(folder.read("ran"));
});

it("removeProjectFolders keeps absolute entries if the project folder contains the home folder", () => {
  const homeBin = `${homedir()}/bin`;
  assert.equal(
    removeProjectFolders(["bin", homeBin, "/usr/bin"].join(delimiter), homedir()),
    [homeBin, "/usr/bin"].join(delimiter),
  );
  assert.equal(removeProjectFolders(["", "/usr/bin"].join(delimiter), "/"), "/usr/bin");
  assert.equal(removeProjectFolders(undefined, "/"), undefined);
});
