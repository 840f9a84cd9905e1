// `npm start`: make ready what is missing, then become the server in the folder where the command was given.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { at, checkNode, install, isBuilt } from "./project.mjs";

checkNode();
await install();
if (!isBuilt()) {
  const { build } = await import("./build.mjs");
  process.stderr.write("building\n");
  await build({ types: false });
}

// npm runs scripts in the package's folder; the person stood elsewhere.
const { INIT_CWD: folder } = process.env;
if (folder && existsSync(folder)) process.chdir(folder);

// In this very process: signals and the exit code are the server's own.
const cli = at("dist", "src", "cli.js");
process.argv = [process.execPath, cli, "serve", ...process.argv.slice(2)];
await import(pathToFileURL(cli).href);
