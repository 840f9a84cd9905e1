// `npm start`: installs and builds if needed, then becomes the server in the folder where the user ran the command.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { inRoot, checkNode, install, isBuilt } from "./project.mjs";

checkNode();
await install();
if (!isBuilt()) {
  const { build } = await import("./build.mjs");
  process.stderr.write("building\n");
  await build({ types: false });
}

// npm runs scripts in the package's folder. INIT_CWD is the user's folder.
const { INIT_CWD: folder } = process.env;
if (folder && existsSync(folder)) process.chdir(folder);

// Runs in this process, so that signals and the exit code are those of the server.
const cli = inRoot("dist", "src", "cli.js");
process.argv = [process.execPath, cli, "serve", ...process.argv.slice(2)];
await import(pathToFileURL(cli).href);
