import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join, resolve } from "node:path";
import { TEMPLATES, type newAdapter } from "./descriptions/new.js";
import type { CommandHandler } from "./command.js";
import { formatFailureLine } from "./failure-message.js";
import { UsageError } from "./usage-error.js";

/** Limit of npm for the name of a package. */
const MAX_NAME_CHARACTERS = 214;
const USAGE_EXIT_CODE = 2;
/** The documentation folder. The relative path is the same from dist/chunks, the folder of the bundled code. */
const DOCS_URL = new URL("../../docs/", import.meta.url);

/** `gantry new KIND NAME`: writes the files of a documentation page into a new folder. */
export const run: CommandHandler<typeof newAdapter.flags> = async ({ args, flags, output }) => {
  try {
    const [kind, name, ...extraArgs] = args;
    if (kind === undefined || !Object.hasOwn(TEMPLATES, kind))
      throw new UsageError(`expected one of ${Object.keys(TEMPLATES).join(", ")}, got ${kind ?? "nothing"}`);
    if (name === undefined || extraArgs.length > 0)
      throw new UsageError(`expected one NAME after ${kind}, got ${args.length - 1}`);
    checkName(name);
    const folder = flags.dir ?? name.replace(/^@[^/]+\//, "");
    const files = createPackageFiles(
      await readFile(new URL(TEMPLATES[kind as keyof typeof TEMPLATES], DOCS_URL), "utf8"),
      name,
    );
    await writeFiles(resolve(folder), files);
    const fileLines = Object.keys(files).map((file) => `  ${join(folder, file)}\n`);
    await output.write(`${fileLines.join("")}\nREADME.md describes the next steps.\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    output.report(formatFailureLine(`${error.message} (see gantry new --help)`));
    return USAGE_EXIT_CODE;
  }
};

/** Throws `UsageError` if the name is not valid for a new package. */
function checkName(name: string): void {
  const isName = /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/.test(name);
  const isReserved = isBuiltin(name) || ["gantry", "node_modules", "favicon.ico"].includes(name);
  if (!isName || isReserved || name.length > MAX_NAME_CHARACTERS)
    throw new UsageError(
      `expected the name of an npm package, in small letters, digits and -._~ and of no other module, got ${JSON.stringify(name)}`,
    );
}

/** Returns the files of a new package: the code in a documentation page, the manifest and the readme. */
export function createPackageFiles(page: string, name: string): Record<string, string> {
  const [, exampleName = ""] = /^mkdir (\S+) && cd/m.exec(page) ?? [];
  const [checkCommand = ""] = /gantry check [^`\n]+/.exec(page) ?? [];
  const codeBlocks = [...page.matchAll(/[Ss]ave as `([^`]+)`:\n\n```\w+\n(.*?)^```$/gms)];
  const codeFiles = codeBlocks.map(([, file = "", text = ""]) => [
    file,
    text.replaceAll(`"${exampleName}"`, JSON.stringify(name)),
  ]);
  const manifest = {
    name,
    version: "0.1.0",
    type: "module",
    exports: "./index.js",
    files: ["index.js"],
    scripts: { test: "node --test", check: checkCommand, start: "gantry serve --config config.json" },
    peerDependencies: { gantry: "*" },
    peerDependenciesMeta: { gantry: { optional: true } },
  };
  const [, title = ""] = /^# (.+)$/m.exec(page) ?? [];
  const readme = `# ${name}

An adapter for gantry. The page "${title}" of gantry's documentation explains the code.

Once: \`npm link gantry\`, for a gantry that is installed globally, or \`npm install PATH\`, for one that you built.

\`\`\`sh
npm test        # the checks of gantry/testing
npm run check   # the same, as a report
npm start       # gantry serve with this adapter
\`\`\`
`;
  return {
    "package.json": `${JSON.stringify(manifest, null, 2)}\n`,
    ...(Object.fromEntries(codeFiles) as Record<string, string>),
    "README.md": readme,
  };
}

/** Writes files into a folder. Rejects with `UsageError` if the folder is not empty. */
async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  const existingFiles = await readdir(folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw new UsageError(`${folder}: expected an empty folder (${(error as NodeJS.ErrnoException).code ?? "unknown"})`);
  });
  if (existingFiles.length > 0)
    throw new UsageError(`${folder}: expected an empty folder, got one with ${existingFiles[0]}; --dir names another`);
  await mkdir(folder, { recursive: true });
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text, { flag: "wx" });
}
